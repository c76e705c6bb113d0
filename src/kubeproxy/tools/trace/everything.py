"""All service ports of the running proxy, as a trace watches them."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubeproxy.explain.destination import split_port
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail, RulePort
from kubeproxy.serve.traffic.series import KIND
from kubeproxy.tools.trace.connections import Watched

_KINDS: Final = {kind.value: label for kind, label in KIND.items()}


class Rules(msgspec.Struct, frozen=True, rename="camel"):
    """What `/rules` answers."""

    service_ports: tuple[RulePort, ...]


def watched_rules(rules: Rules) -> list[Watched]:
    """The service ports of all Services. Of endpoints elsewhere the node is not known."""
    return [_watched(port) for port in rules.service_ports]


def _watched(port: RulePort) -> Watched:
    name = f"{port.namespace}/{port.service}" + (f":{port.port}" if port.port else "")
    detail = PortDetail(
        name=port.port,
        protocol=port.protocol,
        ip_family=port.ip_family,
        frontends=tuple(FrontendDetail(_KINDS[f.kind], f.address, f.port) for f in port.frontends),
        endpoints=tuple(_endpoints(port)),
        internal_traffic_policy=port.internal_traffic_policy,
        external_traffic_policy=port.external_traffic_policy,
        source_ranges=port.source_ranges,
    )
    return Watched(name, detail)


def _endpoints(port: RulePort) -> Iterator[EndpointDetail]:
    yield from _details(port.local_endpoints, is_local=True)
    yield from _details(
        (e for e in port.endpoints if e not in port.local_endpoints), is_local=False
    )


def _details(endpoints: Iterable[str], *, is_local: bool) -> Iterator[EndpointDetail]:
    for each in endpoints:
        host, number = split_port(each)
        yield EndpointDetail(
            address=host.strip("[]"),
            port=int(number),
            node="",
            on_this_node=is_local,
            ready=True,
            serving=True,
            terminating=False,
            used=True,
        )
