"""Which packets to try on a cluster: every source against every frontend, and what is beside them.

Beside the frontends: a port and a protocol that a service does not have, an echo to its address,
a cluster IP that no Service has, and node ports on every address of kestrel.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.decide import Packet
from kubeproxy.table.entries import FrontendKey
from kubeproxy.table.node import NodeView
from lab.expectation import Expectation
from lab.outcome import Probe
from lab.plan import HOSTS, PROTOCOLS, UNALLOCATED, UNDEFINED_PORT

SOURCES = ("P", "L1", "H", "X", "Y", "Q", "LO")
"""A pod, an endpoint, the host, two clients from outside, another node's pod, the loopback."""

Target = tuple[str, Protocol | None, int]


class Pair(msgspec.Struct, frozen=True):
    """A source by its name in the plan, and the first packet that it sends."""

    source: str
    packet: Packet

    def probe(self) -> Probe:
        """The packet, to be dialled."""
        sent = self.packet
        return Probe(self.source, sent.source, sent.destination, sent.port, sent.protocol)


def pair(source: str, target: Target, address: str = "") -> Pair:
    """A source and a target; the source may use another address than its own."""
    destination, protocol, port = target
    host = HOSTS[source]
    family = Family.IPV6 if ":" in destination else Family.IPV4
    sent_from = address or host.address(family)
    return Pair(source, Packet(sent_from, destination, protocol, port, host.interface))


def all_pairs(expectation: Expectation, sources: Iterable[str] = SOURCES) -> list[Pair]:
    """Every source against every target, in both families."""
    found = []
    for family in Family:
        node = expectation.nodes[family]
        targets = list(dict.fromkeys(_targets(expectation, family)))
        for source in sources:
            # Loopback addresses reach each other, and nothing else.
            found += [
                pair(source, target)
                for target in targets
                if node.is_loopback(target[0]) == (source == "LO")
            ]
    return found


def _targets(expectation: Expectation, family: Family) -> Iterator[Target]:
    table, node = expectation.tables[family], expectation.nodes[family]
    for entry in table.entries.values():
        if entry.protocol in PROTOCOLS:
            for key in map(entry.key, entry.frontends):
                yield from _around(key, node)
    for address in table.cluster_ips():
        yield address, None, 0
    yield UNALLOCATED[family], Protocol.TCP, 80
    yield UNALLOCATED[family], None, 0


def _around(key: FrontendKey, node: NodeView) -> Iterator[Target]:
    """A frontend and its neighbours."""
    if not key.address:
        for address in node.addresses:
            yield address, key.protocol, key.port
        return
    for protocol in dict.fromkeys((key.protocol, Protocol.TCP, Protocol.UDP)):
        yield key.address, protocol, key.port
    yield key.address, Protocol.TCP, UNDEFINED_PORT
