"""The settings of a service port in words, for the terminal and the page."""

from collections.abc import Iterator

from kubeproxy.explain.words import duration
from kubeproxy.serve.status.wire import PortDetail


def settings(port: PortDetail) -> Iterator[str]:
    """What decides about its traffic, besides frontends and endpoints."""
    yield f"internalTrafficPolicy {port.internal_traffic_policy}"
    if port.external_traffic_policy:
        yield f"externalTrafficPolicy {port.external_traffic_policy}"
    if port.balance:
        yield f"balance {port.balance}"
    if port.affinity_seconds:
        yield f"session affinity {duration(port.affinity_seconds)}"
    if port.source_ranges is not None:
        yield f"only from {' '.join(port.source_ranges) or 'nobody'}"
    if port.health_check_port:
        yield f"health check port {port.health_check_port}"
