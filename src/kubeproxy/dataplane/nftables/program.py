"""The program: what every packet goes through, whatever the cluster. See docs/nftables.md.

The cluster is the content of the sets and maps. The only chains that depend on it are those of
`choices`: one for each way of choosing that is in use, such as "one of three, at random".
"""

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables.language import (
    DPORT,
    DROP,
    HEADERS,
    L4PROTO,
    ORIGINAL_DPORT,
    PRIORITY,
    RANGED_PRIORITY,
    RETURN,
    Chain,
    Count,
    Headers,
    Hook,
    InSet,
    Is,
    IsInterface,
    IsMarked,
    IsNew,
    IsProtocol,
    IsTranslated,
    Key,
    Mark,
    Masquerade,
    Program,
    Reject,
    Rule,
    Selector,
    Set,
    SetPriority,
    Statement,
    VerdictMap,
    goto,
    jump,
    numgen,
)
from kubeproxy.table.node import LOOPBACK, Node, PodCIDR
from kubeproxy.table.policy import Masquerading

TABLE = "kube-proxy"
COMMENT = "rules for kube-proxy"

# The table's name is upstream's, and no name in it is one that a release of upstream has. When an
# operator goes back, upstream works on in this table: what it makes, empties, deletes or declares
# in another way is then never ours, and nothing that we leave behind refers to it.
CLUSTER_IPS = "cluster-ips-in-use"
NODEPORT_ADDRESSES = "nodeport-addresses"
SERVICE_CIDRS = "service-cidrs"
SERVICE_CHOICES = "service-choices"
NODEPORT_CHOICES = "nodeport-choices"
SERVICE_ENDPOINTS = "service-endpoints"
SERVICE_LOCAL_ENDPOINTS = "service-local-endpoints"
NODEPORT_ENDPOINTS = "nodeport-endpoints"
NODEPORT_LOCAL_ENDPOINTS = "nodeport-local-endpoints"
SERVICE_CONNECTIONS = "service-connections"
NODEPORT_CONNECTIONS = "nodeport-connections"
SERVICE_REFUSALS = "service-refusals"
NODEPORT_REFUSALS = "nodeport-refusals"
FIREWALL_IPS = "firewall-services"
FIREWALL_SOURCES = "firewall-sources"
HAIRPINS = "hairpins"
AFFINITY = "affinity"
LOCAL_AFFINITY = "local-affinity"
SHARED_AFFINITY = "shared-affinity"
SHARED_LOCAL_AFFINITY = "shared-local-affinity"
SERVICE_AFFINITY = "service-affinity"
NODEPORT_AFFINITY = "nodeport-affinity"
REMEMBER_SERVICES = "remember-services"
REMEMBER_NODEPORTS = "remember-nodeports"
LOCALHOST_NODEPORTS = "localhost-nodeports"

PINS = {False: AFFINITY, True: LOCAL_AFFINITY}
SHARED_PINS = {False: SHARED_AFFINITY, True: SHARED_LOCAL_AFFINITY}
"""Where clients are remembered, by whether the choice was among endpoints of this node."""

RANGE_SETS = frozenset({SERVICE_CIDRS})
"""Sets in which a range is two elements, its beginning and its end.

Newer kernels (seen: 6.18.44) refuse to add or delete one without the other next to it, so these
sets are emptied and filled again, in one transaction, whenever they differ.
"""

REFUSE = "refuse"
MARK_TO_MASQUERADE = "mark-to-masquerade"

LOCALHOST_COUNTER = {protocol: f"localhost-{protocol.name.lower()}" for protocol in Protocol}

AFFINITY_FULL = "affinity-full"
"""Counts the clients for whom the map of their own had no room."""

INDEX = numgen(65536)
AFFINITY_SIZE = 65535

# When one service has filled the map, clients of others are remembered by a hash of their address:
# each service has so many places, which nobody else can take. The size is for 256 services at once
# whose places are all taken.
SHARED_PLACES = 1024
_SHARED_SIZE = 256 * SHARED_PLACES

_HOOK_NUMBER = {"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}


def _hook(type_: str, hook: str, priority: int, text: str) -> Hook:
    return Hook(type_, hook, _HOOK_NUMBER[hook], priority, text)


def masquerade_mark(bit: int) -> int:
    """The mark of a masquerade bit."""
    return 1 << bit


def is_pod(node: Node, headers: Headers, *, negate: bool = False) -> Statement | None:
    """The packet comes, or does not come, from a pod; None when that cannot be told."""
    detector = node.detector
    if detector is None:
        return None
    if isinstance(detector, PodCIDR):
        return Is(headers.saddr, detector.prefix, negate)
    return IsInterface(detector.name, detector.prefix, negate)


def program(
    node: Node,
    mark: int,
    *,
    endpoint_counters: bool = False,
    affinity_size: int = AFFINITY_SIZE,
) -> Program:
    """The program for one family of this node."""
    headers = HEADERS[node.family]
    gate = node.localhost_gate
    return Program(
        family=node.family,
        table=TABLE,
        comment=COMMENT,
        counters=(AFFINITY_FULL, *(LOCALHOST_COUNTER.values() if gate else ())),
        sets=(
            *_sets(headers, endpoint_counters=endpoint_counters),
            *_pins(headers, affinity_size),
            *(_localhost_sets() if gate else ()),
        ),
        chains=(
            *_base_chains(node, headers),
            *_check_chains(node, headers),
            Chain(MARK_TO_MASQUERADE, ((Mark(mark),),)),
            Chain("masquerade-marked", ((Mark(mark, clear=True),), (Masquerade(),))),
            _postrouting(headers, mark),
        ),
    )


def _sets(headers: Headers, *, endpoint_counters: bool) -> tuple[Set, ...]:
    address = (headers.daddr,)
    frontend: Key = (headers.daddr, L4PROTO, DPORT)
    node_port: Key = (L4PROTO, DPORT)
    backend: Key = (headers.daddr, DPORT)

    def endpoints(name: str, key: Key, comment: str) -> Set:
        return Set(name, (*key, INDEX), comment, backend, typeof=True, counter=endpoint_counters)

    return (
        Set(CLUSTER_IPS, address, "cluster IPs in use"),
        Set(NODEPORT_ADDRESSES, address, "addresses that serve node ports"),
        Set(SERVICE_CIDRS, address, "where cluster IPs are taken from", interval=True),
        Set(SERVICE_CONNECTIONS, frontend, "new connections of a frontend", counter=True),
        Set(NODEPORT_CONNECTIONS, node_port, "new connections of a node port", counter=True),
        Set(SERVICE_CHOICES, frontend, "how a frontend chooses its endpoint", verdicts=True),
        Set(NODEPORT_CHOICES, node_port, "how a node port chooses", verdicts=True),
        endpoints(SERVICE_ENDPOINTS, frontend, "the n-th endpoint of a frontend"),
        endpoints(SERVICE_LOCAL_ENDPOINTS, frontend, "the n-th endpoint on this node"),
        endpoints(NODEPORT_ENDPOINTS, node_port, "the n-th endpoint of a node port"),
        endpoints(NODEPORT_LOCAL_ENDPOINTS, node_port, "the n-th endpoint on this node"),
        Set(SERVICE_REFUSALS, frontend, "frontends with nobody to serve", verdicts=True),
        Set(NODEPORT_REFUSALS, node_port, "node ports with nobody to serve", verdicts=True),
        Set(FIREWALL_IPS, frontend, "whose source ranges a frontend has", (PRIORITY,)),
        Set(FIREWALL_SOURCES, (RANGED_PRIORITY, headers.saddr), "source ranges", interval=True),
        Set(
            HAIRPINS,
            (headers.saddr, headers.daddr, L4PROTO, DPORT),
            "endpoints of this node that reach themselves",
        ),
        Set(SERVICE_AFFINITY, frontend, "services that keep their clients", (PRIORITY,)),
        Set(NODEPORT_AFFINITY, node_port, "the same for node ports", (PRIORITY,)),
        Set(REMEMBER_SERVICES, frontend, "how a choice is remembered", verdicts=True),
        Set(REMEMBER_NODEPORTS, node_port, "the same for node ports", verdicts=True),
    )


def _pins(headers: Headers, size: int) -> tuple[Set, ...]:
    """The maps that packets fill."""

    def pins(name: str, comment: str, client: Selector, size: int) -> Set:
        backend = (headers.daddr, DPORT)
        key = (client, PRIORITY)
        return Set(name, key, comment, backend, typeof=True, dynamic=True, size=size)

    here = "the same among endpoints of this node"
    shared = "for clients that found the other map full"
    return (
        pins(AFFINITY, "which endpoint a client of a service has", headers.saddr, size),
        pins(LOCAL_AFFINITY, here, headers.saddr, size),
        pins(SHARED_AFFINITY, shared, INDEX, _SHARED_SIZE),
        pins(SHARED_LOCAL_AFFINITY, here, INDEX, _SHARED_SIZE),
    )


def _localhost_sets() -> tuple[Set, ...]:
    refused = "node ports refused on loopback addresses"
    return (Set(LOCALHOST_NODEPORTS, (L4PROTO, DPORT), refused),)


def _base_chains(node: Node, headers: Headers) -> tuple[Chain, ...]:
    """The chains on the hooks; priorities are upstream's, which others rely on.

    Their names contain a slash: by that upstream knows chains which it may empty and delete. Its
    first transaction empties them, so that no packet comes to what we leave behind.
    """
    daddr = headers.daddr
    firewall: Rule = (
        IsNew(),
        SetPriority((daddr, L4PROTO, DPORT), FIREWALL_IPS),
        jump("check-sources"),
    )
    new_services: Rule = (IsNew(), jump("refuse-services"))
    new_cluster_ips: Rule = (IsNew(), jump("refuse-cluster-ips"))
    localhost = ((jump("localhost-check"),),) if node.localhost_gate else ()
    remember: Rule = (IsNew(), IsTranslated(), jump("remember"))
    nat = _mark_cluster_ip_traffic(node, headers)
    late = _once_more(node, headers)
    return (
        Chain(
            "filter/prerouting-pre-dnat",
            (firewall,),
            _hook("filter", "prerouting", -110, "dstnat - 10"),
        ),
        Chain(
            "filter/output-pre-dnat",
            (firewall,),
            _hook("filter", "output", -110, "-110"),
        ),
        Chain(
            "filter/input",
            (
                (IsNew(), jump("refuse-nodeports")),
                new_services,
                *localhost,
                remember,
            ),
            _hook("filter", "input", 0, "filter"),
        ),
        Chain(
            "filter/forward",
            (new_services, new_cluster_ips),
            _hook("filter", "forward", 0, "filter"),
        ),
        Chain(
            "filter/output",
            (new_services, new_cluster_ips),
            _hook("filter", "output", 0, "filter"),
        ),
        Chain(
            "filter/postrouting-remember",
            (remember,),
            _hook("filter", "postrouting", 90, "srcnat - 10"),
        ),
        Chain("nat/prerouting", nat, _hook("nat", "prerouting", -100, "dstnat")),
        Chain("nat/prerouting-late", late, _hook("nat", "prerouting", -90, "dstnat + 10")),
        Chain("nat/output", nat, _hook("nat", "output", -100, "-100")),
        Chain("nat/output-late", late, _hook("nat", "output", -90, "-90")),
    )


def _once_more(node: Node, headers: Headers) -> tuple[Rule, ...]:
    """For packets that were on their way through the rules when a transaction took effect.

    A packet goes on through the rules of before, but sees the elements of after: it may be led
    to a place in a list that is gone. It is not translated then, and would be refused; so whoever
    is not translated looks once more.
    """
    *mark, _ = _mark_cluster_ip_traffic(node, headers)
    to_node_port = InSet((headers.daddr,), NODEPORT_ADDRESSES)
    return (
        *mark,
        (VerdictMap((headers.daddr, L4PROTO, DPORT), SERVICE_CHOICES),),
        (to_node_port, VerdictMap((L4PROTO, DPORT), NODEPORT_CHOICES)),
    )


def _mark_cluster_ip_traffic(node: Node, headers: Headers) -> tuple[Rule, ...]:
    """Traffic to cluster IPs that must come back through this node is masqueraded."""
    to_cluster_ip = InSet((headers.daddr,), CLUSTER_IPS)
    frontends: Rule = (jump("frontends"),)
    if node.masquerading is Masquerading.NEVER:
        return (frontends,)
    unless_pod = node.masquerading is Masquerading.UNLESS_POD
    not_a_pod = is_pod(node, headers, negate=True) if unless_pod else None
    sources = () if not_a_pod is None else (not_a_pod,)
    return ((to_cluster_ip, *sources, jump(MARK_TO_MASQUERADE)), frontends)


def _check_chains(node: Node, headers: Headers) -> tuple[Chain, ...]:
    frontend: Key = (headers.daddr, L4PROTO, DPORT)
    node_port: Key = (L4PROTO, DPORT)
    to_node_port = InSet((headers.daddr,), NODEPORT_ADDRESSES)
    original: Key = (headers.original_daddr, L4PROTO, ORIGINAL_DPORT)
    was_node_port = InSet((headers.original_daddr,), NODEPORT_ADDRESSES)
    chains = [
        Chain(
            "frontends",
            (
                (InSet(frontend, SERVICE_CONNECTIONS),),
                (VerdictMap(frontend, SERVICE_CHOICES),),
                (to_node_port, InSet(node_port, NODEPORT_CONNECTIONS)),
                (to_node_port, VerdictMap(node_port, NODEPORT_CHOICES)),
            ),
        ),
        Chain("refuse-services", ((VerdictMap(frontend, SERVICE_REFUSALS),),)),
        Chain(
            "refuse-nodeports",
            ((to_node_port, VerdictMap(node_port, NODEPORT_REFUSALS)),),
        ),
        Chain(
            "refuse-cluster-ips",
            (
                (InSet((headers.daddr,), CLUSTER_IPS), goto(REFUSE)),
                (InSet((headers.daddr,), SERVICE_CIDRS), DROP),
            ),
        ),
        Chain(
            "check-sources",
            (
                (
                    InSet((RANGED_PRIORITY, headers.saddr), FIREWALL_SOURCES),
                    SetPriority(),
                    RETURN,
                ),
                (DROP,),
            ),
        ),
        Chain(REFUSE, ((Reject(node.family),),)),
        # A port of conntrack has no type but beside its protocol: hence a rule for each.
        Chain(
            "remember",
            (
                *((_of(each), VerdictMap(original, REMEMBER_SERVICES)) for each in Protocol),
                *(
                    (was_node_port, _of(each), VerdictMap(original[1:], REMEMBER_NODEPORTS))
                    for each in Protocol
                ),
            ),
        ),
    ]
    if node.localhost_gate:
        chains.append(_localhost_check(node, headers))
    return tuple(chains)


def _of(protocol: Protocol) -> IsProtocol:
    return IsProtocol(protocol.name.lower(), protocol)


def _localhost_check(node: Node, headers: Headers) -> Chain:
    """Node ports that are refused on loopback addresses, counted by protocol."""
    loopback = Is(headers.daddr, LOOPBACK[node.family])
    refused = InSet((L4PROTO, DPORT), LOCALHOST_NODEPORTS)
    return Chain(
        "localhost-check",
        tuple(
            (
                loopback,
                _of(protocol),
                refused,
                Count(LOCALHOST_COUNTER[protocol]),
                Reject(node.family),
            )
            for protocol in Protocol
        ),
    )


def _postrouting(headers: Headers, mark: int) -> Chain:
    itself = (headers.saddr, headers.daddr, L4PROTO, DPORT)
    return Chain(
        "nat/postrouting",
        (
            (IsMarked(mark), jump("masquerade-marked")),
            (IsTranslated(), InSet(itself, HAIRPINS), Masquerade()),
        ),
        _hook("nat", "postrouting", 100, "srcnat"),
    )
