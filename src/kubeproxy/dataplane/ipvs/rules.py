"""The iptables rules around the virtual servers, spelled as `iptables-save` shows them.

`iptables-restore` reads that form too, so desired and actual rules can be compared as text. A rule
that uses a set exists while the set has members, except those that upstream always writes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs import names
from kubeproxy.dataplane.ipvs.names import Set, set_name
from kubeproxy.dataplane.xtables_text import pod_match
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.node import LOOPBACK, Node
from kubeproxy.table.policy import Masquerading

Chains = Mapping[str, tuple[str, ...]]
"""The rules of each chain, in their order; without the `-A CHAIN` in front."""

Tables = Mapping[str, Chains]
"""Chains by the table that they are in."""


class Jump(msgspec.Struct, frozen=True):
    """A rule in a built-in chain that leads to one of ours."""

    table: str
    chain: str
    target: str
    comment: str

    @property
    def rule(self) -> str:
        """The rule, as it is listed."""
        return f"{_comment(self.comment)} -j {self.target}"


_PORTALS = "kubernetes service portals"
_FIREWALL = "kube-proxy firewall rules"
_ACCESS = "kubernetes ipvs access filter"
_FORWARDING = "kubernetes forwarding rules"

# Each is inserted in front of those before it: a packet meets the last one first.
JUMPS = (
    Jump("nat", "OUTPUT", names.SERVICES, _PORTALS),
    Jump("nat", "PREROUTING", names.SERVICES, _PORTALS),
    Jump("nat", "POSTROUTING", names.POSTROUTING, "kubernetes postrouting rules"),
    Jump("filter", "FORWARD", names.FORWARD, _FORWARDING),
    Jump("filter", "INPUT", names.NODE_PORT, "kubernetes health check rules"),
    Jump("filter", "INPUT", names.PROXY_FIREWALL, _FIREWALL),
    Jump("filter", "FORWARD", names.PROXY_FIREWALL, _FIREWALL),
    Jump("filter", "INPUT", names.FILTER, _ACCESS),
    Jump("filter", "OUTPUT", names.OUT_FILTER, _ACCESS),
)


class Facts(msgspec.Struct, frozen=True):
    """What the rules depend on.

    `not_from_pod` is a match, "" when pods cannot be recognised; `filled` are the sets that
    have members, and `denials` the load balancers' addresses that this node may not use.
    """

    family: Family
    mark: str
    not_from_pod: str = ""
    masquerading: Masquerading = Masquerading.NEVER
    filled: frozenset[Set] = frozenset()
    denials: tuple[ServerKey, ...] = ()


def facts_of(
    node: Node, masquerade_bit: int, filled: frozenset[Set], denials: tuple[ServerKey, ...]
) -> Facts:
    """What the rules depend on, on this node."""
    option, value = pod_match(node)
    return Facts(
        node.family,
        f"{1 << masquerade_bit:#x}",
        f"! {option} {value} " if option else "",
        node.masquerading,
        filled,
        denials,
    )


def tables(facts: Facts) -> Tables:
    """The chains that are ours, with their rules."""
    return {
        "nat": {
            names.SERVICES: tuple(_services(facts)),
            names.POSTROUTING: tuple(_postrouting(facts)),
            names.NODE_PORT: tuple(_node_ports(facts)),
            names.LOAD_BALANCER: tuple(_load_balancer(facts)),
            names.MARK_MASQ: (f"-j MARK --set-xmark {facts.mark}/{facts.mark}",),
        },
        "filter": {
            names.FORWARD: _forward(facts),
            names.NODE_PORT: (
                f"{_looked_up(facts, Set.HEALTH_CHECK_NODE_PORT, 'dst')} -j ACCEPT",
            ),
            names.PROXY_FIREWALL: tuple(_proxy_firewall(facts)),
            names.RANGES_FIREWALL: tuple(_ranges_firewall(facts)),
            names.FILTER: tuple(_access_filter(facts)),
            names.OUT_FILTER: tuple(map(_denial, facts.denials)),
        },
    }


def _services(facts: Facts) -> Iterator[str]:
    cluster_ip, balancer = Set.CLUSTER_IP in facts.filled, Set.LOAD_BALANCER in facts.filled
    yield f"-s {LOOPBACK[facts.family]} -j RETURN"
    if balancer:
        yield f"{_looked_up(facts, Set.LOAD_BALANCER)} -j {names.LOAD_BALANCER}"
    if cluster_ip:
        yield _cluster_ip_masquerade(facts)
    if Set.EXTERNAL_IP in facts.filled:
        yield f"{_looked_up(facts, Set.EXTERNAL_IP)} -j {names.MARK_MASQ}"
    for set_ in (Set.EXTERNAL_IP, Set.EXTERNAL_IP_LOCAL):
        if set_ in facts.filled:
            match = _looked_up(facts, set_)
            yield f"{match} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT"
            yield f"{match} -m addrtype --dst-type LOCAL -j ACCEPT"
    yield f"-m addrtype --dst-type LOCAL -j {names.NODE_PORT}"
    if cluster_ip:
        yield f"{_match(facts, Set.CLUSTER_IP)} -j ACCEPT"
    if balancer:
        yield f"{_match(facts, Set.LOAD_BALANCER)} -j ACCEPT"


def _cluster_ip_masquerade(facts: Facts) -> str:
    """What is masqueraded on the way to a cluster IP; where nothing is, what comes from one."""
    source = facts.not_from_pod if facts.masquerading is Masquerading.UNLESS_POD else ""
    direction = "src,dst" if facts.masquerading is Masquerading.NEVER else "dst,dst"
    return f"{source}{_looked_up(facts, Set.CLUSTER_IP, direction)} -j {names.MARK_MASQ}"


def _postrouting(facts: Facts) -> Iterator[str]:
    mark = facts.mark
    if Set.LOOP_BACK in facts.filled:
        yield f"{_looked_up(facts, Set.LOOP_BACK, 'dst,dst,src')} -j MASQUERADE"
    yield f"-m mark ! --mark {mark}/{mark} -j RETURN"
    yield f"-j MARK --set-xmark {mark}/0x0"
    comment = _comment("kubernetes service traffic requiring SNAT")
    yield f"{comment} -j MASQUERADE --random-fully"


def _load_balancer(facts: Facts) -> Iterator[str]:
    if Set.LOAD_BALANCER_LOCAL in facts.filled:
        yield f"{_looked_up(facts, Set.LOAD_BALANCER_LOCAL)} -j RETURN"
    yield f"-j {names.MARK_MASQ}"


def _node_ports(facts: Facts) -> Iterator[str]:
    for protocol, local, every in (
        (Protocol.TCP, Set.NODE_PORT_LOCAL_TCP, Set.NODE_PORT_TCP),
        (Protocol.UDP, Set.NODE_PORT_LOCAL_UDP, Set.NODE_PORT_UDP),
        (Protocol.SCTP, Set.NODE_PORT_LOCAL_SCTP, Set.NODE_PORT_SCTP),
    ):
        direction = "dst,dst" if protocol is Protocol.SCTP else "dst"
        for set_, target in ((local, "RETURN"), (every, names.MARK_MASQ)):
            if set_ in facts.filled:
                match = _looked_up(facts, set_, direction)
                yield f"-p {protocol.name.lower()} {match} -j {target}"


def _forward(facts: Facts) -> tuple[str, ...]:
    related = _comment("kubernetes forwarding conntrack rule")
    return (
        f"{_comment(_FORWARDING)} -m mark --mark {facts.mark}/{facts.mark} -j ACCEPT",
        f"{related} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
    )


def _proxy_firewall(facts: Facts) -> Iterator[str]:
    if Set.LOAD_BALANCER_FW in facts.filled:
        yield f"{_looked_up(facts, Set.LOAD_BALANCER_FW)} -j {names.RANGES_FIREWALL}"


def _ranges_firewall(facts: Facts) -> Iterator[str]:
    for set_ in (Set.LOAD_BALANCER_SOURCE_CIDR, Set.LOAD_BALANCER_SOURCE_IP):
        if set_ in facts.filled:
            yield f"{_looked_up(facts, set_, 'dst,dst,src')} -j RETURN"
    yield "-j DROP"


def _access_filter(facts: Facts) -> Iterator[str]:
    for set_ in (Set.LOAD_BALANCER, Set.CLUSTER_IP, Set.EXTERNAL_IP, Set.EXTERNAL_IP_LOCAL):
        yield f"{_match(facts, set_)} -j RETURN"
    yield f"{_match(facts, Set.HEALTH_CHECK_NODE_PORT, 'dst')} -j RETURN"
    word = "icmp" if facts.family is Family.IPV4 else "icmp6"
    bound = _match(facts, Set.IPVS_IPS, "dst")
    yield f"-m conntrack --ctstate NEW {bound} -j REJECT --reject-with {word}-port-unreachable"


def _denial(key: ServerKey) -> str:
    bits = 128 if ":" in key.address else 32
    return (
        f"-s {key.address}/{bits} -m ipvs --vproto {key.protocol.value}"
        f" --vaddr {key.address} --vport {key.port} -j DROP"
    )


def _looked_up(facts: Facts, set_: Set, direction: str = "dst,dst") -> str:
    return f"{_comment(set_.comment)} {_match(facts, set_, direction)}"


def _match(facts: Facts, set_: Set, direction: str = "dst,dst") -> str:
    return f"-m set --match-set {set_name(set_, facts.family)} {direction}"


def _comment(text: str) -> str:
    quoted = text.replace("'", "\\'")
    return f'-m comment --comment "{quoted}"'


def restore_text(wanted: Tables, missing: Collection[Jump]) -> str:
    """The text for `iptables-restore --noflush`: our chains, and the jumps that are missing."""
    return "".join(_restored(table, wanted[table], missing) for table in ("nat", "filter"))


def _restored(table: str, chains: Chains, missing: Iterable[Jump]) -> str:
    heads = (f":{chain} - [0:0]\n" for chain in chains)
    rules = (f"-A {chain} {rule}\n" for chain, rules in chains.items() for rule in rules)
    jumps = (f"-I {jump.chain} {jump.rule}\n" for jump in missing if jump.table == table)
    return f"*{table}\n{''.join(heads)}{''.join(jumps)}{''.join(rules)}COMMIT\n"
