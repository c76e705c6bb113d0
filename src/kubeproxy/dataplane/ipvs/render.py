"""A whole family as text, in the words of the tools that list it.

The sets as `ipset save` shows them, the virtual servers as `ipvsadm -S -n`, the rules as
`iptables-save`; on a machine that has nothing else in them.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.dataplane.ipvs.names import IpSet, set_name, set_options
from kubeproxy.dataplane.ipvs.plan import Part, Server, setup_of
from kubeproxy.dataplane.ipvs.rules import JUMPS, tables
from kubeproxy.dataplane.ipvs.sets import member_lines
from kubeproxy.dataplane.ipvs.settings import DEVICE, IpvsSettings
from kubeproxy.dataplane.ipvs.state import DesiredState, state_of
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.linux.netlink.ipvs import (
    PERSISTENT,
    SOURCE_PORT,
    RealKey,
    ServerKey,
    VirtualServer,
)
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView

_OPTION = {Protocol.TCP: "-t", Protocol.UDP: "-u", Protocol.SCTP: "--sctp-service"}
_WORD = struct.Struct(">i")
_BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
}


def describe(table: Table, node: NodeView, settings: IpvsSettings) -> str:
    """All that a sync of an empty kernel would leave."""
    state = state_of(table, setup_of(node, settings.scheduler))
    family = table.family
    wanted = tables(node, settings.masquerade_bit, state.filled(), state.denials())
    inet = "inet" if family is Family.IPV4 else "inet6"
    bound = sorted(state.members[IpSet.IPVS_IPS], key=pack)
    return "".join(
        (
            f"# ip addr show {DEVICE}\n",
            *(f"{inet} {each}/{family.bits} scope global {DEVICE}\n" for each in bound),
            "# ipset save\n",
            *_set_lines(state, family),
            "# ipvsadm -S -n\n",
            *server_lines(state.servers()),
            f"# {PROGRAM[family]}-save\n",
            *(line for name in ("filter", "nat") for line in _table_lines(name, wanted[name])),
        )
    )


def describe_some(parts: Sequence[Part], family: Family) -> str:
    """What some service ports have: their members of sets, and their virtual servers."""
    members = dict.fromkeys(member for part in parts for member in part.members)
    servers = {key: s for part in parts for key, s in (part.node_ports | part.servers).items()}
    if not servers:
        return ""
    lines = "".join(server_lines(servers))
    return f"# ipset save\n{member_lines('add', members, family)}# ipvsadm -S -n\n{lines}"


def _set_lines(state: DesiredState, family: Family) -> Iterator[str]:
    """The sets and their members, but for the words that the kernel adds by itself."""
    for set_ in IpSet:
        name = set_name(set_, family)
        yield f"create {name} {set_options(set_, family)}\n"
        yield from (f"add {name} {member}\n" for member in sorted(state.members[set_]))


def server_lines(servers: Mapping[ServerKey, Server]) -> Iterator[str]:
    """The virtual servers with their real servers, in the order in which ipvsadm lists them."""
    for key in sorted(servers, key=lambda key: (key.protocol, _rank(key))):
        server = servers[key]
        yield f"-A {server_text(key, server.virtual)}\n"
        for real in sorted(server.reals, key=_rank):
            yield f"-a {real_text(key, real)}\n"


def server_text(key: ServerKey, virtual: VirtualServer) -> str:
    """A virtual server with its options, in the words of ipvsadm."""
    options = f" -p {virtual.timeout}" if virtual.flags & PERSISTENT else ""
    options += " -b mh-port" if virtual.flags & SOURCE_PORT else ""
    return f"{key_text(key)} -s {virtual.scheduler}{options}"


def real_text(key: ServerKey, real: RealKey) -> str:
    """A real server of a virtual one, in the words of ipvsadm."""
    return f"{key_text(key)} -r {real} -m -w 1"


def key_text(key: ServerKey) -> str:
    """How ipvsadm names a virtual server."""
    return f"{_OPTION[key.protocol]} {RealKey(key.address, key.port)}"


def _rank(place: ServerKey | RealKey) -> tuple[tuple[tuple[int, ...], ...], int]:
    """What ipvsadm sorts by: addresses 32 bits at a time, the upper half being negative."""
    return tuple(_WORD.iter_unpack(pack(place.address))), place.port


def _table_lines(table: str, chains: Mapping[str, list[str]]) -> Iterator[str]:
    """One table, with the kernel's own chains."""
    yield f"*{table}\n"
    yield from (f":{chain} ACCEPT [0:0]\n" for chain in _BUILT_IN[table])
    yield from (f":{chain} - [0:0]\n" for chain in sorted(chains))
    for chain in _BUILT_IN[table]:
        jumps = [jump for jump in JUMPS if jump.table == table and jump.chain == chain]
        yield from (f"-A {chain} {jump.rule}\n" for jump in reversed(jumps))
    for chain in sorted(chains):
        yield from (f"{rule}\n" for rule in chains[chain])
    yield "COMMIT\n"
