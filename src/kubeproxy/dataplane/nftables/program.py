"""The program: what every packet goes through, whatever the cluster. See docs/nftables.md.

The cluster is the content of the sets and maps. The only chains that depend on it are those of
`choices`: one for each way of choosing that is in use, such as "one of three, at random".
"""

import msgspec

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables import language as nft
from kubeproxy.table.node import LOOPBACK, NodeView, PodCIDR
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
"""Counts the clients that found no room in the map of their own."""

INDEX = nft.numgen(65536)

# When one service has filled the map, clients of others are remembered by a hash of their address:
# each service has so many places of its own. The size is for 256 services at once whose places are
# all taken.
SHARED_PLACES = 1024
_SHARED_SIZE = 256 * SHARED_PLACES

_HOOK_NUMBER = {"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}
_NODE_PORT: nft.Key = (nft.L4PROTO, nft.DPORT)


class NftablesSettings(msgspec.Struct, frozen=True):
    """The fields of the configuration that nftables mode reads."""

    masquerade_bit: int = 14
    endpoint_counters: bool = False
    affinity_size: int = 65535


def is_pod(node: NodeView, headers: nft.Headers, *, negate: bool = False) -> nft.Match | None:
    """The packet comes, or does not come, from a pod; None when that cannot be detected."""
    detector = node.detector
    if detector is None:
        return None
    if isinstance(detector, PodCIDR):
        return nft.in_prefix(headers.saddr, detector.prefix, negate=negate)
    return nft.from_interface(detector.name, prefix=detector.prefix, negate=negate)


def program(node: NodeView, settings: NftablesSettings) -> nft.Program:
    """The program for one family of this node."""
    headers = nft.HEADERS[node.family]
    gate = node.localhost_gate
    mark = 1 << settings.masquerade_bit
    refused_on_loopback = "node ports refused on loopback addresses"
    return nft.Program(
        family=node.family,
        table=TABLE,
        comment=COMMENT,
        counters=(AFFINITY_FULL, *(LOCALHOST_COUNTER.values() if gate else ())),
        sets=(
            *_sets(headers, endpoint_counters=settings.endpoint_counters),
            *_pins(headers, settings.affinity_size),
            *((nft.Set(LOCALHOST_NODEPORTS, _NODE_PORT, refused_on_loopback),) if gate else ()),
        ),
        chains=(
            *_hooked_chains(node, headers),
            *_check_chains(node, headers),
            *((_localhost_check(node, headers),) if gate else ()),
            _chain(MARK_TO_MASQUERADE, (nft.Mark(mark),)),
            _chain("masquerade-marked", (nft.Mark(mark, clear=True),), (nft.Masquerade(),)),
            _hooked(
                "nat/postrouting",
                (100, "srcnat"),
                (nft.is_marked(mark), nft.jump("masquerade-marked")),
                (nft.TRANSLATED, nft.InSet(_itself(headers), HAIRPINS), nft.Masquerade()),
            ),
        ),
    )


def _itself(headers: nft.Headers) -> nft.Key:
    """The key of an endpoint that reaches itself."""
    return (headers.saddr, headers.daddr, *_NODE_PORT)


def _sets(headers: nft.Headers, *, endpoint_counters: bool) -> tuple[nft.Set, ...]:
    address = (headers.daddr,)
    frontend = (headers.daddr, *_NODE_PORT)
    sources = (nft.RANGED_PRIORITY, headers.saddr)
    number = (nft.PRIORITY,)

    def endpoints(name: str, key: nft.Key, comment: str) -> nft.Set:
        key, data = (*key, INDEX), (headers.daddr, nft.DPORT)
        return nft.Set(name, key, comment, data, typeof=True, counter=endpoint_counters)

    return (
        nft.Set(CLUSTER_IPS, address, "cluster IPs in use"),
        nft.Set(NODEPORT_ADDRESSES, address, "addresses that serve node ports"),
        nft.Set(SERVICE_CIDRS, address, "where cluster IPs are taken from", interval=True),
        nft.Set(SERVICE_CONNECTIONS, frontend, "new connections of a frontend", counter=True),
        nft.Set(NODEPORT_CONNECTIONS, _NODE_PORT, "new connections of a node port", counter=True),
        nft.Set(SERVICE_CHOICES, frontend, "how a frontend chooses its endpoint", verdicts=True),
        nft.Set(NODEPORT_CHOICES, _NODE_PORT, "how a node port chooses", verdicts=True),
        endpoints(SERVICE_ENDPOINTS, frontend, "the n-th endpoint of a frontend"),
        endpoints(SERVICE_LOCAL_ENDPOINTS, frontend, "the n-th endpoint on this node"),
        endpoints(NODEPORT_ENDPOINTS, _NODE_PORT, "the n-th endpoint of a node port"),
        endpoints(NODEPORT_LOCAL_ENDPOINTS, _NODE_PORT, "the n-th endpoint on this node"),
        nft.Set(SERVICE_REFUSALS, frontend, "frontends with nobody to serve", verdicts=True),
        nft.Set(NODEPORT_REFUSALS, _NODE_PORT, "node ports with nobody to serve", verdicts=True),
        nft.Set(FIREWALL_IPS, frontend, "whose source ranges a frontend has", number),
        nft.Set(FIREWALL_SOURCES, sources, "source ranges", interval=True),
        nft.Set(HAIRPINS, _itself(headers), "endpoints of this node that reach themselves"),
        nft.Set(SERVICE_AFFINITY, frontend, "services that keep their clients", number),
        nft.Set(NODEPORT_AFFINITY, _NODE_PORT, "the same for node ports", number),
        nft.Set(REMEMBER_SERVICES, frontend, "how a choice is remembered", verdicts=True),
        nft.Set(REMEMBER_NODEPORTS, _NODE_PORT, "the same for node ports", verdicts=True),
    )


def _pins(headers: nft.Headers, size: int) -> tuple[nft.Set, ...]:
    """The maps that packets fill."""

    def pins(name: str, comment: str, client: nft.Selector, size: int) -> nft.Set:
        key, data = (client, nft.PRIORITY), (headers.daddr, nft.DPORT)
        return nft.Set(name, key, comment, data, typeof=True, dynamic=True, size=size)

    here = "the same among endpoints of this node"
    shared = "for clients that found the other map full"
    return (
        pins(AFFINITY, "which endpoint a client of a service has", headers.saddr, size),
        pins(LOCAL_AFFINITY, here, headers.saddr, size),
        pins(SHARED_AFFINITY, shared, INDEX, _SHARED_SIZE),
        pins(SHARED_LOCAL_AFFINITY, here, INDEX, _SHARED_SIZE),
    )


def _chain(name: str, *rules: nft.Rule) -> nft.Chain:
    return nft.Chain(name, rules)


def _hooked(name: str, priority: tuple[int, str], *rules: nft.Rule) -> nft.Chain:
    """A chain on the hook that its name says: "nat/prerouting-late" is of type nat."""
    type_, hook = name.partition("-")[0].split("/")
    return nft.Chain(name, rules, nft.Hook(type_, hook, _HOOK_NUMBER[hook], *priority))


def _hooked_chains(node: NodeView, headers: nft.Headers) -> tuple[nft.Chain, ...]:
    """The chains on the hooks but the last; priorities are upstream's, which others rely on.

    Their names contain a slash: by that upstream knows chains which it may empty and delete. Its
    first transaction empties them, so that no packet comes to what we leave behind.
    """
    new = nft.NEW
    frontend = (headers.daddr, *_NODE_PORT)
    firewall: nft.Rule = (
        new,
        nft.SetPriority(frontend, FIREWALL_IPS),
        nft.jump("check-sources"),
    )
    new_node_ports: nft.Rule = (new, nft.jump("refuse-nodeports"))
    new_services: nft.Rule = (new, nft.jump("refuse-services"))
    checks = (new_services, (new, nft.jump("refuse-cluster-ips")))
    localhost = ((nft.jump("localhost-check"),),) if node.localhost_gate else ()
    remember: nft.Rule = (new, nft.TRANSLATED, nft.jump("remember"))
    mark = _mark_cluster_ip_traffic(node, headers)
    nat = (*mark, (nft.jump("frontends"),))
    # A packet that was on its way through the rules when a transaction took effect goes on through
    # the rules of before, but sees the elements of after: it may be led to a place in a list that
    # is gone. It is not translated then, and would be refused; so it is looked up once more.
    late = (
        *mark,
        (nft.VerdictMap(frontend, SERVICE_CHOICES),),
        (_to_node_port(headers), nft.VerdictMap(_NODE_PORT, NODEPORT_CHOICES)),
    )
    to_input = (new_node_ports, new_services, *localhost, remember)
    return (
        _hooked("filter/prerouting-pre-dnat", (-110, "dstnat - 10"), firewall),
        _hooked("filter/output-pre-dnat", (-110, "-110"), firewall),
        _hooked("filter/input", (0, "filter"), *to_input),
        _hooked("filter/forward", (0, "filter"), *checks),
        _hooked("filter/output", (0, "filter"), *checks),
        _hooked("filter/postrouting-remember", (90, "srcnat - 10"), remember),
        _hooked("nat/prerouting", (-100, "dstnat"), *nat),
        _hooked("nat/prerouting-late", (-90, "dstnat + 10"), *late),
        _hooked("nat/output", (-100, "-100"), *nat),
        _hooked("nat/output-late", (-90, "-90"), *late),
    )


def _to_node_port(headers: nft.Headers) -> nft.InSet:
    return nft.InSet((headers.daddr,), NODEPORT_ADDRESSES)


def _mark_cluster_ip_traffic(node: NodeView, headers: nft.Headers) -> tuple[nft.Rule, ...]:
    """Traffic to cluster IPs that must come back through this node is masqueraded."""
    if node.masquerading is Masquerading.NEVER:
        return ()
    to_cluster_ip = nft.InSet((headers.daddr,), CLUSTER_IPS)
    unless_pod = node.masquerading is Masquerading.UNLESS_POD
    not_a_pod = is_pod(node, headers, negate=True) if unless_pod else None
    sources = () if not_a_pod is None else (not_a_pod,)
    return ((to_cluster_ip, *sources, nft.jump(MARK_TO_MASQUERADE)),)


def _check_chains(node: NodeView, headers: nft.Headers) -> tuple[nft.Chain, ...]:
    frontend = (headers.daddr, *_NODE_PORT)
    to_node_port = _to_node_port(headers)
    allowed = nft.InSet((nft.RANGED_PRIORITY, headers.saddr), FIREWALL_SOURCES)
    was_node_port = nft.InSet((headers.original_daddr,), NODEPORT_ADDRESSES)
    node_port_then = (nft.L4PROTO, nft.ORIGINAL_DPORT)
    remember_service = nft.VerdictMap((headers.original_daddr, *node_port_then), REMEMBER_SERVICES)
    remember_node_port = nft.VerdictMap(node_port_then, REMEMBER_NODEPORTS)
    return (
        _chain(
            "frontends",
            (nft.InSet(frontend, SERVICE_CONNECTIONS),),
            (nft.VerdictMap(frontend, SERVICE_CHOICES),),
            (to_node_port, nft.InSet(_NODE_PORT, NODEPORT_CONNECTIONS)),
            (to_node_port, nft.VerdictMap(_NODE_PORT, NODEPORT_CHOICES)),
        ),
        _chain("refuse-services", (nft.VerdictMap(frontend, SERVICE_REFUSALS),)),
        _chain("refuse-nodeports", (to_node_port, nft.VerdictMap(_NODE_PORT, NODEPORT_REFUSALS))),
        _chain(
            "refuse-cluster-ips",
            (nft.InSet((headers.daddr,), CLUSTER_IPS), nft.goto(REFUSE)),
            (nft.InSet((headers.daddr,), SERVICE_CIDRS), nft.DROP),
        ),
        _chain("check-sources", (allowed, nft.SetPriority(), nft.RETURN), (nft.DROP,)),
        _chain(REFUSE, (nft.Reject(node.family),)),
        # A port of conntrack has no type but beside its protocol: hence a rule for each.
        _chain(
            "remember",
            *((each, remember_service) for each in nft.PROTOCOLS),
            *((was_node_port, each, remember_node_port) for each in nft.PROTOCOLS),
        ),
    )


def _localhost_check(node: NodeView, headers: nft.Headers) -> nft.Chain:
    """Node ports that are refused on loopback addresses, counted by protocol."""
    loopback = nft.in_prefix(headers.daddr, LOOPBACK[node.family])
    refused = nft.InSet(_NODE_PORT, LOCALHOST_NODEPORTS)
    return _chain(
        "localhost-check",
        *(
            (
                loopback,
                nft.is_protocol(each),
                refused,
                nft.UseCounter(counter),
                nft.Reject(node.family),
            )
            for each, counter in LOCALHOST_COUNTER.items()
        ),
    )
