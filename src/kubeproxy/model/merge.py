"""The slices of a Service -> the endpoints of one of its ports."""

from collections.abc import Mapping

import msgspec

from kubeproxy.inet import Family, Protocol
from kubeproxy.model.endpoint import Endpoint, Slice


class PortEndpoint(msgspec.Struct, frozen=True, gc=False):
    """An endpoint at the port on which it serves one port of the Service."""

    endpoint: Endpoint
    port: int


def merge(slices: Mapping[str, Slice], name: str, protocol: Protocol) -> list[PortEndpoint]:
    """The endpoints that the slices, by slice name, have for a port, each address:port once.

    An address is in two slices while it moves from one to the other. A copy that terminates never
    replaces another; one that does not always does. Slices are read in the order of their names,
    so that the result does not depend on the order in which they came. It is sorted by the text
    `address:port`, as upstream does: iptables rules show that order to people.
    """
    found: dict[str, PortEndpoint] = {}
    for slice_name in sorted(slices):
        slice_ = slices[slice_name]
        for port in slice_.ports:
            if port.name != name or port.protocol is not protocol:
                continue
            number = port.port
            ipv6 = slice_.family is Family.IPV6
            for endpoint in slice_.endpoints:
                address = endpoint.address
                key = f"[{address}]:{number}" if ipv6 else f"{address}:{number}"
                if endpoint.terminating and key in found:
                    continue
                found[key] = PortEndpoint(endpoint, number)
    return [found[key] for key in sorted(found)]
