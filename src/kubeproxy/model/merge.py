"""The slices of a Service -> the endpoints of its ports."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubeproxy.inet import Family, Protocol
from kubeproxy.model.endpoint import Endpoint, Slice


class PortEndpoint(msgspec.Struct, frozen=True, gc=False):
    """An endpoint at the port on which it serves one port of the Service."""

    endpoint: Endpoint
    port: int


PortKey = tuple[str, Protocol]
Sources = Mapping[PortKey, Sequence[tuple[Slice, int]]]
"""The slices that have a port, by its name and protocol, and its number in each of them."""


def by_port(slices: Mapping[str, Slice]) -> Sources:
    """The slices of a Service, by slice name, sorted out by their ports.

    They are in the order of their names, so that what is made of them does not depend on the
    order in which they came. A Service and its slices may have thousands of ports each: they are
    gone through once for all.
    """
    found: dict[PortKey, list[tuple[Slice, int]]] = {}
    for name in sorted(slices):
        slice_ = slices[name]
        for port in slice_.ports:
            found.setdefault((port.name, port.protocol), []).append((slice_, port.port))
    return found


def merge(sources: Iterable[tuple[Slice, int]]) -> list[PortEndpoint]:
    """The endpoints that slices have for a port, each address:port once.

    An address is in two slices while it moves from one to the other. A copy that terminates never
    replaces another; one that does not always does. The result is sorted by the text
    `address:port`, as upstream does: iptables rules show that order to people.
    """
    found: dict[str, PortEndpoint] = {}
    for slice_, number in sources:
        ipv6 = slice_.family is Family.IPV6
        for endpoint in slice_.endpoints:
            address = endpoint.address
            key = f"[{address}]:{number}" if ipv6 else f"{address}:{number}"
            if endpoint.terminating and key in found:
                continue
            found[key] = PortEndpoint(endpoint, number)
    return [found[key] for key in sorted(found)]


def endpoints_of(slices: Mapping[str, Slice], name: str, protocol: Protocol) -> list[PortEndpoint]:
    """The endpoints of one port of a Service."""
    return merge(by_port(slices).get((name, protocol), ()))
