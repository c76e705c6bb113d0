"""The kernel's statistics of virtual servers -> what the frontends have counted.

A virtual server counts the connections that it has scheduled. A node port has one on every
address of the node that serves node ports.
"""

from collections.abc import Iterable, Iterator, Mapping

from kubeproxy.dataplane.counts import Count
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.entries import Entry, FrontendKind, ServicePortName


def counts(
    entries: Iterable[Entry],
    node_port_addresses: tuple[str, ...],
    connections: Mapping[ServerKey, int],
) -> Iterator[tuple[ServicePortName, list[Count]]]:
    """What each entry's virtual servers have counted; the first frontend of an address has it."""
    for entry in entries:
        found: dict[ServerKey, Count] = {}
        for frontend in entry.frontends:
            node_port = frontend.kind is FrontendKind.NODE_PORT
            for address in node_port_addresses if node_port else (frontend.address,):
                key = ServerKey(entry.protocol, address, frontend.port)
                found.setdefault(key, Count(frontend, key, connections.get(key)))
        yield entry.name, list(found.values())
