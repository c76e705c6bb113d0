"""The iptables rules around the virtual servers, spelled as `iptables-save` shows them.

`iptables-restore` reads that form too, so desired and actual rules can be compared as text.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.names import IpSet, set_name
from kubeproxy.dataplane.xtables_text import BuiltInJump, RuleTables, pod_match
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.node import LOOPBACK, NodeView
from kubeproxy.table.policy import Masquerading

_PORTALS = "kubernetes service portals"
_FIREWALL = "kube-proxy firewall rules"
_ACCESS = "kubernetes ipvs access filter"

# Each is inserted in front of those before it: a packet meets the last one first.
JUMPS = (
    BuiltInJump("nat", "OUTPUT", "KUBE-SERVICES", _PORTALS),
    BuiltInJump("nat", "PREROUTING", "KUBE-SERVICES", _PORTALS),
    BuiltInJump("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    BuiltInJump("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
    BuiltInJump("filter", "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules"),
    BuiltInJump("filter", "INPUT", "KUBE-PROXY-FIREWALL", _FIREWALL),
    BuiltInJump("filter", "FORWARD", "KUBE-PROXY-FIREWALL", _FIREWALL),
    BuiltInJump("filter", "INPUT", "KUBE-IPVS-FILTER", _ACCESS),
    BuiltInJump("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", _ACCESS),
)


class _Rule(NamedTuple):
    """A rule, with words that depend on the node in braces.

    `{set}` is the match of a set with its comment, `{match}` the same without. A rule with a set
    exists while that has members, but for those that are there `always`.
    """

    text: str
    set: IpSet | None = None
    always: bool = False


_IS_EXTERNAL = "{set} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT"
_IS_LOCAL = "{set} -m addrtype --dst-type LOCAL -j ACCEPT"

_RULES = {
    "nat": {
        "KUBE-SERVICES": (
            _Rule("-s {loopback} -j RETURN"),
            _Rule("{set} -j KUBE-LOAD-BALANCER", IpSet.LOAD_BALANCER),
            _Rule("{masqueraded} -j KUBE-MARK-MASQ", IpSet.CLUSTER_IP),
            _Rule("{set} -j KUBE-MARK-MASQ", IpSet.EXTERNAL_IP),
            _Rule(_IS_EXTERNAL, IpSet.EXTERNAL_IP),
            _Rule(_IS_LOCAL, IpSet.EXTERNAL_IP),
            _Rule(_IS_EXTERNAL, IpSet.EXTERNAL_IP_LOCAL),
            _Rule(_IS_LOCAL, IpSet.EXTERNAL_IP_LOCAL),
            _Rule("-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"),
            _Rule("{match} -j ACCEPT", IpSet.CLUSTER_IP),
            _Rule("{match} -j ACCEPT", IpSet.LOAD_BALANCER),
        ),
        "KUBE-POSTROUTING": (
            _Rule("{set} -j MASQUERADE", IpSet.LOOP_BACK),
            _Rule("-m mark ! --mark {mark}/{mark} -j RETURN"),
            _Rule("-j MARK --set-xmark {mark}/0x0"),
            _Rule(
                '-m comment --comment "kubernetes service traffic requiring SNAT"'
                " -j MASQUERADE --random-fully"
            ),
        ),
        "KUBE-NODE-PORT": (
            _Rule("-p tcp {set} -j RETURN", IpSet.NODE_PORT_LOCAL_TCP),
            _Rule("-p tcp {set} -j KUBE-MARK-MASQ", IpSet.NODE_PORT_TCP),
            _Rule("-p udp {set} -j RETURN", IpSet.NODE_PORT_LOCAL_UDP),
            _Rule("-p udp {set} -j KUBE-MARK-MASQ", IpSet.NODE_PORT_UDP),
            _Rule("-p sctp {set} -j RETURN", IpSet.NODE_PORT_LOCAL_SCTP_HASH),
            _Rule("-p sctp {set} -j KUBE-MARK-MASQ", IpSet.NODE_PORT_SCTP_HASH),
        ),
        "KUBE-LOAD-BALANCER": (
            _Rule("{set} -j RETURN", IpSet.LOAD_BALANCER_LOCAL),
            _Rule("-j KUBE-MARK-MASQ"),
        ),
        "KUBE-MARK-MASQ": (_Rule("-j MARK --set-xmark {mark}/{mark}"),),
    },
    "filter": {
        "KUBE-FORWARD": (
            _Rule(
                '-m comment --comment "kubernetes forwarding rules"'
                " -m mark --mark {mark}/{mark} -j ACCEPT"
            ),
            _Rule(
                '-m comment --comment "kubernetes forwarding conntrack rule"'
                " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
            ),
        ),
        "KUBE-NODE-PORT": (_Rule("{set} -j ACCEPT", IpSet.HEALTH_CHECK_NODE_PORT, always=True),),
        "KUBE-PROXY-FIREWALL": (
            _Rule("{set} -j KUBE-SOURCE-RANGES-FIREWALL", IpSet.LOAD_BALANCER_FW),
        ),
        "KUBE-SOURCE-RANGES-FIREWALL": (
            _Rule("{set} -j RETURN", IpSet.LOAD_BALANCER_SOURCE_CIDR),
            _Rule("{set} -j RETURN", IpSet.LOAD_BALANCER_SOURCE_IP),
            _Rule("-j DROP"),
        ),
        "KUBE-IPVS-FILTER": (
            _Rule("{match} -j RETURN", IpSet.LOAD_BALANCER, always=True),
            _Rule("{match} -j RETURN", IpSet.CLUSTER_IP, always=True),
            _Rule("{match} -j RETURN", IpSet.EXTERNAL_IP, always=True),
            _Rule("{match} -j RETURN", IpSet.EXTERNAL_IP_LOCAL, always=True),
            _Rule("{match} -j RETURN", IpSet.HEALTH_CHECK_NODE_PORT, always=True),
            _Rule(
                "-m conntrack --ctstate NEW {match} -j REJECT --reject-with {unreachable}",
                IpSet.IPVS_IPS,
                always=True,
            ),
        ),
    },
}
_OUT_FILTER = "KUBE-IPVS-OUT-FILTER"

# Which addresses and ports of a packet are looked up.
_DIRECTION = {
    "bitmap:port": "dst",
    "hash:ip": "dst",
    "hash:ip,port": "dst,dst",
    "hash:ip,port,ip": "dst,dst,src",
    "hash:ip,port,net": "dst,dst,src",
}


def tables(
    node: NodeView, masquerade_bit: int, filled: Collection[IpSet], denials: Iterable[ServerKey]
) -> RuleTables:
    """The chains that are ours, with their rules.

    `filled` are the sets that have members, and `denials` the load balancers' addresses that this
    node may not use.
    """
    is_ipv4 = node.family is Family.IPV4
    words = {
        "mark": f"{1 << masquerade_bit:#x}",
        "loopback": str(LOOPBACK[node.family]),
        "masqueraded": _masqueraded(node),
        "unreachable": "icmp-port-unreachable" if is_ipv4 else "icmp6-port-unreachable",
    }

    def written(rule: _Rule) -> str:
        if rule.set is None:
            return rule.text.format_map(words)
        match = _match(rule.set, node.family, _DIRECTION[rule.set.type])
        by_set = {"set": _comment(rule.set) + match, "match": match}
        return rule.text.format_map(words | by_set)

    found = {
        table: {
            chain: [
                f"-A {chain} {written(rule)}"
                for rule in rules
                if rule.set is None or rule.always or rule.set in filled
            ]
            for chain, rules in chains.items()
        }
        for table, chains in _RULES.items()
    }
    found["filter"][_OUT_FILTER] = [f"-A {_OUT_FILTER} {_denial(key)}" for key in denials]
    return found


def _masqueraded(node: NodeView) -> str:
    """What is masqueraded on the way to a cluster IP; where nothing is, what comes from one."""
    source, direction = "", "dst,dst"
    if node.masquerading is Masquerading.NEVER:
        direction = "src,dst"
    elif node.masquerading is Masquerading.UNLESS_POD:
        source = "! {} {} ".format(*pod_match(node))
    match = _match(IpSet.CLUSTER_IP, node.family, direction)
    return f"{source}{_comment(IpSet.CLUSTER_IP)}{match}"


def _match(set_: IpSet, family: Family, direction: str) -> str:
    return f"-m set --match-set {set_name(set_, family)} {direction}"


def _comment(set_: IpSet) -> str:
    quoted = set_.value.replace("'", "\\'")
    return f'-m comment --comment "{quoted}" '


def _denial(key: ServerKey) -> str:
    bits = 128 if ":" in key.address else 32
    return (
        f"-s {key.address}/{bits} -m ipvs --vproto {key.protocol.value}"
        f" --vaddr {key.address} --vport {key.port} -j DROP"
    )


def missing_jumps(found: RuleTables) -> list[BuiltInJump]:
    """Those that stand nowhere in their chains."""
    return [
        jump
        for jump in JUMPS
        if f"-A {jump.chain} {jump.rule}" not in found[jump.table].get(jump.chain, ())
    ]


def restore_text(wanted: RuleTables, missing: Collection[BuiltInJump] = ()) -> str:
    """The text for `iptables-restore --noflush`: our chains, and the jumps that are missing."""
    lines: list[str] = []
    for table, chains in wanted.items():
        lines.append(f"*{table}\n")
        lines += (f":{chain} - [0:0]\n" for chain in chains)
        lines += (f"-I {jump.chain} {jump.rule}\n" for jump in missing if jump.table == table)
        lines += (f"{rule}\n" for rules in chains.values() for rule in rules)
        lines.append("COMMIT\n")
    return "".join(lines)
