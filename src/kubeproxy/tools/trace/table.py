"""The table of a trace: it logs first packets to frontends that may refuse them. It changes none.

The kernel removes it with the socket that it belongs to, however the trace ends.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family
from kubeproxy.dataplane.nftables import language as lang
from kubeproxy.dataplane.nftables.batch import element_messages, encoded, program_messages
from kubeproxy.dataplane.nftables.elements import frontend_key, head
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text, u32
from kubeproxy.linux.netlink.message import NLM_F_CREATE
from kubeproxy.linux.netlink.nfnetlink import request
from kubeproxy.serve.status.wire import PortDetail
from kubeproxy.table.entries import Frontend, FrontendKind
from kubeproxy.table.policy import Scope
from kubeproxy.tools.trace.connections import NODE_PORT, Watched

FRONTENDS, NODE_PORTS = "frontends", "node-ports"
_AFTER_TRACKING: Final = -190
"""Tracking, at -200, says which packets are the first; rules come later."""
_HOOKS: Final = (("prerouting", 0), ("output", 3))


def may_refuse(port: PortDetail) -> bool:
    """Whether some clients of a service port get no endpoint."""
    used = [each for each in port.endpoints if each.used]
    policies = (port.internal_traffic_policy, port.external_traffic_policy)
    is_local = Scope.LOCAL.value in policies
    has_local = any(each.on_this_node for each in used)
    return not used or port.source_ranges is not None or (is_local and not has_local)


Frontends = Mapping[str, frozenset[bytes]]
"""The elements of each set of a table."""


def frontends(watched: Iterable[Watched], family: Family) -> Frontends:
    """Whose packets are of interest."""
    found: dict[str, set[bytes]] = {FRONTENDS: set(), NODE_PORTS: set()}
    for each in watched:
        port = each.port
        if not each.name or port.ip_family != family.value or not may_refuse(port):
            continue
        for detail in port.frontends:
            frontend = Frontend(FrontendKind.CLUSTER_IP, detail.address, detail.port)
            key = frontend_key(frontend, PROTOCOL_BY_NAME[port.protocol])
            found[NODE_PORTS if detail.kind == NODE_PORT else FRONTENDS].add(key)
    return {name: frozenset(keys) for name, keys in found.items()}


def program(family: Family, name: str, group: int) -> lang.Program:
    """The table: first packets to the frontends in its sets go to a group of notifications."""
    by_port = (lang.L4PROTO, lang.DPORT)
    by_address = (lang.HEADERS[family].daddr, *by_port)
    sets = (
        lang.Set(FRONTENDS, by_address, "may refuse"),
        lang.Set(NODE_PORTS, by_port, "may refuse"),
    )
    rules = tuple((lang.NEW, lang.InSet(each.key, each.name), lang.Log(group)) for each in sets)
    chains = tuple(
        lang.Chain(hook, rules, lang.Hook("filter", hook, number, _AFTER_TRACKING, "raw + 110"))
        for hook, number in _HOOKS
    )
    return lang.Program(family, name, "while kube-proxy trace runs", (), sets, chains)


def begun(table: lang.Program) -> list[bytes]:
    """Make the table, so that it belongs to the socket."""
    payload = text(nft.NFTA_TABLE_NAME, table.table)
    payload += u32(nft.NFTA_TABLE_FLAGS, nft.NFT_TABLE_F_OWNER)
    new = request(nft.NFT_MSG_NEWTABLE, NFPROTO[table.family], payload, NLM_F_CREATE)
    return [new, *program_messages(table)[1:]]


def changed(table: lang.Program, before: Frontends, after: Frontends) -> list[bytes]:
    """Have other frontends in the sets."""
    messages: list[bytes] = []
    for name, keys in after.items():
        old = before.get(name, frozenset())
        messages += element_messages(table, name, _elements(old - keys), delete=True)
        messages += element_messages(table, name, _elements(keys - old))
    return messages


def _elements(keys: Iterable[bytes]) -> list[bytes]:
    return [encoded(head(key)) for key in keys]
