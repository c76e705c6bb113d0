"""What ipvs mode leaves in the kernel beside its chains: sets, virtual servers and a device."""

import re
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family, Protocol
from kubeproxy.dataplane.ipvs.names import IpSet, names_of, set_name
from kubeproxy.dataplane.ipvs.settings import DEVICE
from kubeproxy.dataplane.leftovers import CLEAN_UP, REMOVED, TAKEN_OVER, Fate, Leftover
from kubeproxy.dataplane.xtables_chains import Chains, chain_leftover, own_by_mode
from kubeproxy.linux.netlink.ipvs import ServerKey

# Until 1.15, and until 1.10.
_OLD_SETS = ("NODE-PORT-SCTP", "NODE-PORT-LOCAL-SCTP", "LOAD-BALANCER-MASQ")
_SET_NAMES = {set_name(set_, family) for set_ in IpSet for family in Family}.union(
    *(names_of(stem).values() for stem in _OLD_SETS)
)
_NODE_PORT_SETS = {
    name: protocol
    for protocol in Protocol
    for name in names_of(f"NODE-PORT-{protocol.name}").values()
}
_SERVED = re.compile(r"(?P<address>[^,]+),(?P<protocol>tcp|udp|sctp):(?P<port>\d+)")


def own_sets(names: Iterable[str]) -> tuple[str, ...]:
    """The sets of kube-proxy among these."""
    return tuple(name for name in names if name in _SET_NAMES)


def own_servers(
    servers: Iterable[ServerKey], saved_sets: str, bound: Collection[str]
) -> tuple[ServerKey, ...]:
    """The virtual servers that kube-proxy made.

    Each is listed in one of its sets (`saved_sets` is the output of `ipset save`), and the
    addresses of all but node ports are on its device (`bound`).
    """
    listed, node_ports = _listed(saved_sets)
    return tuple(
        server
        for server in servers
        if server.address in bound
        or server in listed
        or (server.protocol, server.port) in node_ports
    )


def _listed(saved_sets: str) -> tuple[set[ServerKey], set[tuple[Protocol, int]]]:
    """The (address, protocol, port) entries of the sets, and the ports on node addresses."""
    listed: set[ServerKey] = set()
    node_ports: set[tuple[Protocol, int]] = set()
    for line in saved_sets.split("\n"):
        if not line.startswith("add "):
            continue
        _, name, entry = line.split()[:3]
        if name in _NODE_PORT_SETS:
            node_ports.add((_NODE_PORT_SETS[name], int(entry)))
        elif name in _SET_NAMES and (match := _SERVED.fullmatch(entry)):
            protocol = PROTOCOL_BY_NAME[match["protocol"].upper()]
            listed.add(ServerKey(protocol, match["address"], int(match["port"])))
    return listed, node_ports


def chain_leftovers(found: Iterable[Chains], kind: str) -> Iterator[Leftover]:
    """The chains of ipvs mode; `kind` is that of the programs here."""
    for chains in found:
        own = own_by_mode(chains.own).ipvs
        if own:
            yield chain_leftover(replace(chains, own=own), kind, "ipvs")


def leftovers(sets: Collection[str], servers: int, *, has_device: bool) -> Iterator[Leftover]:
    """What remains of ipvs mode; or virtual servers that others made."""
    if sets or has_device:
        parts = (
            f"ipsets KUBE-* ({len(sets)})" if sets else "",
            f"device {DEVICE}" if has_device else "",
            f"virtual servers ({servers})" if servers else "",
        )
        stays = "all stays, and the node answers for its addresses" if has_device else "all stays"
        there = ", ".join(filter(None, parts))
        beside = Fate(stays, CLEAN_UP)
        yield Leftover("leftovers of ipvs mode", there, TAKEN_OVER, REMOVED, beside)
    elif servers:
        alone = Fate("left alone")
        deleted = Fate("deleted, unless excluded", "name their ranges in ipvs.excludeCIDRs")
        there = f"{servers} of other programs"
        yield Leftover("virtual servers", there, deleted, alone, alone)
