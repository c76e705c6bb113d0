"""The rules in the kernel, read over netlink: no program is needed for that."""

from collections.abc import Mapping, Sequence
from socket import inet_aton

import msgspec

from demo.cluster import Frontend
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.dump import (
    counts_in,
    list_in,
    read_elements,
    table_handle,
)
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.inspect import dump_set, read_declared
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.namespaces import Namespace

TABLE = Program(Family.IPV4, "kube-proxy", "", (), (), ())
"""The proxy's table for IPv4, whatever is in it."""
_REGISTER = 4
_ENDPOINTS = {
    f"{frontends}-{which}endpoints"
    for frontends in ("service", "nodeport")
    for which in ("", "local-")
}
_COUNTING = ("service-connections", "nodeport-connections")
_LEARNED = {"affinity", "local-affinity"}
"""Maps that packets fill: no part of what the proxy wrote."""


class Ruleset(msgspec.Struct, frozen=True):
    """The proxy's IPv4 table. Two that are equal do the same."""

    rules: Mapping[str, tuple[bytes, ...]]
    """The rules of each chain, in order."""
    elements: Mapping[str, frozenset[tuple[bytes, bytes]]]
    """The elements of each set and map: keys, and what they lead to."""

    def size(self) -> tuple[int, int, int]:
        """How many chains, rules and elements there are."""
        return (
            len(self.rules),
            sum(map(len, self.rules.values())),
            sum(map(len, self.elements.values())),
        )


def number(node: Namespace) -> int:
    """The kernel's number of the table: one that was deleted and made again has another."""
    with node.entered(), Nfnetlink() as kernel:
        asked = text(nft.NFTA_TABLE_NAME, TABLE.table)
        return table_handle(kernel.get(nft.NFT_MSG_GETTABLE, NFPROTO[TABLE.family], asked))


def read(node: Namespace) -> Ruleset:
    """The rules as they are now."""
    with node.entered(), Nfnetlink() as kernel:
        declared = read_declared(kernel, TABLE)
        elements = {
            name: frozenset(
                (_plain(name, head), tail)
                for head, tail in read_elements(dump_set(kernel, TABLE, name)).items()
            )
            for name in declared.sets.keys() - _LEARNED
        }
    rules = {
        chain: tuple(rule.expressions for rule in declared.rules.get(chain, ()))
        for chain in declared.chains
    }
    return Ruleset(rules, elements)


def counters(node: Namespace, frontends: Sequence[Frontend]) -> dict[Frontend, int]:
    """How many connections the kernel counted for each frontend that it knows."""
    counted: dict[bytes, int] = {}
    with node.entered(), Nfnetlink() as kernel:
        for name in _COUNTING:
            for message in dump_set(kernel, TABLE, name):
                counted |= counts_in(list_in(message))
    return {each: counted[_key(each)] for each in frontends if _key(each) in counted}


def leads(node: Namespace, frontend: Frontend, address: str) -> bool:
    """Whether connections to a service's address may be sent to an endpoint."""
    service, endpoint = inet_aton(frontend.address), inet_aton(address)
    elements = read(node).elements["service-endpoints"]
    return any(service in key and endpoint in target for key, target in elements)


def remembered(node: Namespace) -> int:
    """How many clients the kernel remembers, for session affinity."""
    with node.entered(), Nfnetlink() as kernel:
        return len(read_elements(dump_set(kernel, TABLE, "affinity")))


def _key(frontend: Frontend) -> bytes:
    """A frontend as the counting sets name it: each part in registers of its own."""
    parts = [bytes([frontend.protocol]), frontend.port.to_bytes(2)]
    if frontend.kind != "node port":
        parts.insert(0, inet_aton(frontend.address))
    return b"".join(part.ljust(_REGISTER, b"\0") for part in parts)


def _plain(name: str, head: bytes) -> bytes:
    """The head of an element without the slot in which an endpoint is, which is its last part."""
    return head[:-_REGISTER] if name in _ENDPOINTS else head
