"""The slices of a Service -> the endpoints of its ports.

A Service and its slices may have thousands of ports each, and slices thousands of endpoints: each
is visited once, and in steps.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import PART, RUN, Steps, finish, in_order
from kubeproxy.cluster.model.endpoint import Endpoint, Slice


class PortEndpoint(msgspec.Struct, frozen=True, gc=False):
    """An endpoint at the port on which it serves one port of the Service."""

    endpoint: Endpoint
    port: int


PortKey = tuple[str, Protocol]
Sources = Mapping[PortKey, Sequence[tuple[Slice, int]]]
"""The slices that have a port, by its name and protocol, and its number in each of them."""


def with_endpoints(slices: Mapping[str, Slice]) -> list[Slice]:
    """The slices of a Service, by slice name, that have endpoints.

    They are sorted by name, so that the result does not depend on the order of events.
    """
    return [slices[name] for name in sorted(slices) if slices[name].endpoints]


def by_port(slices: Iterable[Slice], ports: Iterable[PortKey]) -> Steps[Sources]:
    """The slices of a Service for each of its ports."""
    found: dict[PortKey, list[tuple[Slice, int]]] = {port: [] for port in ports}
    for slice_ in slices:
        for start in range(0, len(slice_.ports), PART):
            if start:
                yield
            for port in slice_.ports[start : start + PART]:
                known = found.get((port.name, port.protocol))
                if known is not None:
                    known.append((slice_, port.port))
    return found


def merge(sources: Iterable[tuple[Slice, int]]) -> Steps[list[PortEndpoint]]:
    """The endpoints that slices have for a port, each address:port once.

    An address is in two slices while it moves from one to the other. A terminating copy never
    replaces another; one that is not always does. The result is sorted by the text
    `address:port`, as upstream does: iptables rules have that order.
    """
    found: dict[str, PortEndpoint] = {}
    for slice_, number in sources:
        if found:
            yield  # a slice may have a thousand endpoints
        ipv6 = slice_.family is Family.IPV6
        before, after = ("[", f"]:{number}") if ipv6 else ("", f":{number}")
        for endpoint in slice_.endpoints:
            key = f"{before}{endpoint.address}{after}"
            if endpoint.terminating and key in found:
                continue
            found[key] = PortEndpoint(endpoint, number)
    order = sorted(found) if len(found) <= RUN else (yield from in_order([*found]))
    return [found[key] for key in order]


def endpoints_of(slices: Mapping[str, Slice], name: str, protocol: Protocol) -> list[PortEndpoint]:
    """The endpoints of one port of a Service."""
    key = (name, protocol)
    return finish(merge(finish(by_port(with_endpoints(slices), [key]))[key]))
