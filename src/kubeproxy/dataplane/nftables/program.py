"""The program: what every packet goes through, whatever the cluster. See docs/nftables.md.

The cluster is the content of the sets and maps. The only chains that depend on it are those of
`choices`: one for each way of choosing that is in use, such as "one of three, at random".
"""

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import healing, names
from kubeproxy.dataplane.nftables import language as nft
from kubeproxy.table.node import LOOPBACK, NodeView, PodCIDR
from kubeproxy.table.policy import Masquerading

_SHARED_SIZE = 256 * names.SHARED_PLACES
"""For 256 services at once whose shared places are all taken."""

_HOOK_NUMBER = {"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}
_NODE_PORT: nft.Key = (nft.L4PROTO, nft.DPORT)


class NftablesSettings(msgspec.Struct, frozen=True):
    """The fields of the configuration that nftables mode reads.

    `can_heal` is not one of them: it says whether the kernel can do what healing needs.
    """

    masquerade_bit: int = 14
    endpoint_counters: bool = False
    affinity_size: int = 65535
    retries: int = 3
    gone_seconds: int = 900
    can_heal: bool = True


def is_pod(node: NodeView, headers: nft.Headers, *, negate: bool = False) -> nft.Match | None:
    """The packet comes, or does not come, from a pod; None when that cannot be detected."""
    detector = node.detector
    if detector is None:
        return None
    if isinstance(detector, PodCIDR):
        return nft.in_prefix(headers.saddr, detector.prefix, negate=negate)
    return nft.from_interface(detector.name, prefix=detector.prefix, negate=negate)


def program(node: NodeView, settings: NftablesSettings, *, heals: bool = False) -> nft.Program:
    """The program for one family of this node; `heals` adds what healing needs."""
    headers = nft.HEADERS[node.family]
    gate = node.localhost_gate
    mark = 1 << settings.masquerade_bit
    refused_on_loopback = "node ports refused on loopback addresses"
    return nft.Program(
        family=node.family,
        table=names.TABLE,
        comment=names.COMMENT,
        timeouts=healing.timeouts() if heals else (),
        counters=(
            names.AFFINITY_FULL,
            *(names.LOCALHOST_COUNTER.values() if gate else ()),
            *(names.COUNTERS_OF_HEALING if heals else ()),
        ),
        sets=(
            *_sets(headers, endpoint_counters=settings.endpoint_counters),
            *_pins(headers, settings.affinity_size),
            *(
                (nft.Set(names.LOCALHOST_NODEPORTS, _NODE_PORT, refused_on_loopback),)
                if gate
                else ()
            ),
            *(healing.sets(headers, settings.gone_seconds) if heals else ()),
        ),
        chains=(
            *_hooked_chains(node, headers),
            *_check_chains(node, headers),
            *(
                _draw(headers, node_port=port, name=name)
                for (port, _), name in names.LISTS.items()
            ),
            *(_follow(headers, node_port=port, local=local) for port, local in names.LISTS),
            *(_pinned(headers, node_port=port, local=local) for port, local in names.LISTS),
            *((_localhost_check(node, headers),) if gate else ()),
            _chain(names.MARK_TO_MASQUERADE, (nft.Mark(mark),)),
            _chain("masquerade-marked", (nft.Mark(mark, clear=True),), (nft.Masquerade(),)),
            _hooked(
                "nat/postrouting",
                (100, "srcnat"),
                (nft.is_marked(mark), nft.jump("masquerade-marked")),
                (nft.TRANSLATED, nft.InSet(_itself(headers), names.HAIRPINS), nft.Masquerade()),
            ),
            *(healing.chains(headers, settings.retries) if heals else ()),
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
        key, data = (*key, nft.PRIORITY), (headers.daddr, nft.DPORT)
        return nft.Set(name, key, comment, data, counter=endpoint_counters)

    def pinned(place: tuple[bool, bool]) -> nft.Set:
        key = (*(_NODE_PORT if place[0] else frontend), nft.PRIORITY)
        comment = "the endpoint that a pin means"
        return nft.Set(names.PINNED[place], key, comment, (headers.daddr, nft.DPORT))

    return (
        nft.Set(names.CLUSTER_IPS, address, "cluster IPs in use"),
        nft.Set(names.NODEPORT_ADDRESSES, address, "addresses that serve node ports"),
        nft.Set(names.SERVICE_CIDRS, address, "where cluster IPs are taken from", interval=True),
        nft.Set(
            names.SERVICE_CONNECTIONS, frontend, "new connections of a frontend", counter=True
        ),
        nft.Set(
            names.NODEPORT_CONNECTIONS, _NODE_PORT, "new connections of a node port", counter=True
        ),
        nft.Set(names.SERVICE_CHOICES, frontend, "how a frontend chooses its endpoint", number),
        nft.Set(names.NODEPORT_CHOICES, _NODE_PORT, "how a node port chooses", number),
        nft.Set(names.CHOICE_CHAINS, number, "the chain of a way of choosing", verdicts=True),
        endpoints(names.SERVICE_ENDPOINTS, frontend, "the n-th endpoint of a frontend"),
        endpoints(names.SERVICE_LOCAL_ENDPOINTS, frontend, "the n-th endpoint on this node"),
        endpoints(names.NODEPORT_ENDPOINTS, _NODE_PORT, "the n-th endpoint of a node port"),
        endpoints(names.NODEPORT_LOCAL_ENDPOINTS, _NODE_PORT, "the n-th endpoint on this node"),
        *map(pinned, names.PINNED),
        nft.Set(names.SERVICE_REFUSALS, frontend, "frontends without an endpoint"),
        nft.Set(names.NODEPORT_REFUSALS, _NODE_PORT, "node ports without an endpoint"),
        nft.Set(names.SERVICE_DROPS, frontend, "frontends without an endpoint on this node"),
        nft.Set(names.NODEPORT_DROPS, _NODE_PORT, "node ports without an endpoint on this node"),
        nft.Set(names.FIREWALL_IPS, frontend, "whose source ranges a frontend has", number),
        nft.Set(names.FIREWALL_SOURCES, sources, "source ranges", interval=True),
        nft.Set(names.HAIRPINS, _itself(headers), "endpoints of this node that reach themselves"),
        nft.Set(names.SERVICE_AFFINITY, frontend, "services that keep their clients", number),
        nft.Set(names.NODEPORT_AFFINITY, _NODE_PORT, "the same for node ports", number),
        nft.Set(names.REMEMBER_SERVICES, frontend, "how a choice is remembered", number),
        nft.Set(names.REMEMBER_NODEPORTS, _NODE_PORT, "the same for node ports", number),
        nft.Set(names.REMEMBER_CHAINS, number, "the chain of a way of remembering", verdicts=True),
    )


def _pins(headers: nft.Headers, size: int) -> tuple[nft.Set, ...]:
    """The maps that packets fill."""

    def pins(name: str, comment: str, client: nft.Selector, size: int) -> nft.Set:
        key, data = (nft.PRIORITY, client), (nft.PRIORITY,)
        return nft.Set(name, key, comment, data, typeof=True, dynamic=True, size=size)

    here = "the same among endpoints of this node"
    shared = "for clients that found the other map full"
    return (
        pins(names.AFFINITY, "which endpoint a client of a service has", headers.saddr, size),
        pins(names.LOCAL_AFFINITY, here, headers.saddr, size),
        pins(names.SHARED_AFFINITY, shared, nft.numgen(65536), _SHARED_SIZE),
        pins(names.SHARED_LOCAL_AFFINITY, here, nft.numgen(65536), _SHARED_SIZE),
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
        nft.SetPriority(frontend, names.FIREWALL_IPS),
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
        _go(frontend, names.SERVICE_CHOICES),
        (_to_node_port(headers), *_go(_NODE_PORT, names.NODEPORT_CHOICES)),
    )
    # The priority has carried numbers. When IPv4 forwards a packet, the kernel sets it again.
    clear: nft.Rule = (new, nft.TRANSLATED, nft.SetPriority())
    to_input = (new_node_ports, new_services, *localhost, clear, remember)
    forwarded = checks if node.family is Family.IPV4 else (*checks, clear)
    return (
        _hooked("filter/prerouting-pre-dnat", (-110, "dstnat - 10"), firewall),
        _hooked("filter/output-pre-dnat", (-110, "-110"), firewall),
        _hooked("filter/input", (0, "filter"), *to_input),
        _hooked("filter/forward", (0, "filter"), *forwarded),
        _hooked("filter/output", (0, "filter"), *checks, clear),
        _hooked("filter/postrouting-remember", (90, "srcnat - 10"), remember),
        _hooked("nat/prerouting", (-100, "dstnat"), *nat),
        _hooked("nat/prerouting-late", (-90, "dstnat + 10"), *late),
        _hooked("nat/output", (-100, "-100"), *nat),
        _hooked("nat/output-late", (-90, "-90"), *late),
    )


_CHAINS = {
    names.SERVICE_CHOICES: names.CHOICE_CHAINS,
    names.NODEPORT_CHOICES: names.CHOICE_CHAINS,
    names.REMEMBER_SERVICES: names.REMEMBER_CHAINS,
    names.REMEMBER_NODEPORTS: names.REMEMBER_CHAINS,
}
"""Where the numbers in a map lead: to chains of nat, or to chains of filter hooks."""


def _go(key: nft.Key, numbers: str) -> nft.Rule:
    """Go to the chain that a frontend's number stands for.

    A map with a chain for each frontend would make the kernel check the whole table whenever one
    of them changes. The number is carried in the packet's priority; both statements must be in
    one rule, else the priority of a packet that is for no frontend would choose.
    """
    return (nft.SetPriority(key, numbers), nft.VerdictMap((nft.PRIORITY,), _CHAINS[numbers]))


def _draw(headers: nft.Headers, *, node_port: bool, name: str) -> nft.Chain:
    """The place was drawn before, and is in the packet's priority.

    It is drawn in one chain for each length, and looked up in this one: the kernel reads the whole
    map when a chain first refers to it.
    """
    key = (*_frontend(headers, node_port=node_port), nft.PRIORITY)
    return _chain(names.draw_chain(name), (nft.Dnat(headers.family, key, name),))


def _frontend(headers: nft.Headers, *, node_port: bool) -> nft.Key:
    """The part of a key that names the frontend, as the packet does."""
    return _NODE_PORT if node_port else (headers.daddr, *_NODE_PORT)


def _pinned(headers: nft.Headers, *, node_port: bool, local: bool) -> nft.Chain:
    """The client is looked up with the number of the service: under its policy, then the other.

    Each pin that is found is followed, or the next one looked up.
    """
    follow = nft.jump(names.follow_chain(node_port=node_port, local=local))
    client = (nft.PRIORITY, headers.saddr)
    return _chain(
        names.pinned_chain(node_port=node_port, local=local),
        (_own_number(headers, node_port=node_port),),
        (nft.SetPriority(client, names.PINS[local]), follow),
        (nft.SetPriority(shared_place(headers.saddr), names.SHARED_PINS[local]), follow),
        (nft.SetPriority(client, names.PINS[not local]), follow),
    )


def _follow(headers: nft.Headers, *, node_port: bool, local: bool) -> nft.Chain:
    """A pin was found, and is in the priority: it counts if its endpoint can be chosen.

    If not, what was remembered under this policy goes, so that the next choice is remembered.
    """
    key = (*_frontend(headers, node_port=node_port), nft.PRIORITY)
    client = (nft.PRIORITY, headers.saddr)
    return _chain(
        names.follow_chain(node_port=node_port, local=local),
        (nft.Dnat(headers.family, key, names.PINNED[node_port, local]),),
        (_own_number(headers, node_port=node_port),),
        (_forget(names.PINS[local], client),),
        (_forget(names.SHARED_PINS[local], shared_place(headers.saddr)),),
    )


def _forget(map_: str, key: nft.Key) -> nft.ChangeElement:
    """Delete a pin; the kernel asks for data, and does not compare it."""
    return nft.ChangeElement(nft.Change.DELETE, map_, key, (nft.PRIORITY,))


def _own_number(headers: nft.Headers, *, node_port: bool) -> nft.SetPriority:
    """Note the number of a service with session affinity."""
    return nft.SetPriority(_frontend(headers, node_port=node_port), names.NUMBERS[node_port])


def endpoint_hash(headers: nft.Headers) -> nft.Selector:
    """What a pin remembers of an endpoint; larger than all other numbers in the priority."""
    return nft.key_hash((headers.daddr, nft.DPORT), names.PINS_FROM, offset=names.PINS_FROM)


def shared_place(client: nft.Selector) -> nft.Key:
    """One of the places that clients of a service share when the map of pins is full."""
    return (nft.PRIORITY, nft.source_hash(client, names.SHARED_PLACES))


def _to_node_port(headers: nft.Headers) -> nft.InSet:
    return nft.InSet((headers.daddr,), names.NODEPORT_ADDRESSES)


def _mark_cluster_ip_traffic(node: NodeView, headers: nft.Headers) -> tuple[nft.Rule, ...]:
    """Traffic to cluster IPs that must come back through this node is masqueraded."""
    if node.masquerading is Masquerading.NEVER:
        return ()
    to_cluster_ip = nft.InSet((headers.daddr,), names.CLUSTER_IPS)
    unless_pod = node.masquerading is Masquerading.UNLESS_POD
    not_a_pod = is_pod(node, headers, negate=True) if unless_pod else None
    sources = () if not_a_pod is None else (not_a_pod,)
    return ((to_cluster_ip, *sources, nft.jump(names.MARK_TO_MASQUERADE)),)


def _check_chains(node: NodeView, headers: nft.Headers) -> tuple[nft.Chain, ...]:
    frontend = (headers.daddr, *_NODE_PORT)
    to_node_port = _to_node_port(headers)
    allowed = nft.InSet((nft.RANGED_PRIORITY, headers.saddr), names.FIREWALL_SOURCES)
    was_node_port = nft.InSet((headers.original_daddr,), names.NODEPORT_ADDRESSES)
    node_port_then = (nft.L4PROTO, nft.ORIGINAL_DPORT)
    remember_service = _go((headers.original_daddr, *node_port_then), names.REMEMBER_SERVICES)
    remember_node_port = _go(node_port_then, names.REMEMBER_NODEPORTS)
    return (
        _chain(
            "frontends",
            (nft.InSet(frontend, names.SERVICE_CONNECTIONS),),
            _go(frontend, names.SERVICE_CHOICES),
            (to_node_port, nft.InSet(_NODE_PORT, names.NODEPORT_CONNECTIONS)),
            (to_node_port, *_go(_NODE_PORT, names.NODEPORT_CHOICES)),
        ),
        _chain(
            "refuse-services",
            (nft.InSet(frontend, names.SERVICE_REFUSALS), nft.goto(names.REFUSE)),
            (nft.InSet(frontend, names.SERVICE_DROPS), nft.DROP),
        ),
        _chain(
            "refuse-nodeports",
            (to_node_port, nft.InSet(_NODE_PORT, names.NODEPORT_REFUSALS), nft.goto(names.REFUSE)),
            (to_node_port, nft.InSet(_NODE_PORT, names.NODEPORT_DROPS), nft.DROP),
        ),
        _chain(
            "refuse-cluster-ips",
            (nft.InSet((headers.daddr,), names.CLUSTER_IPS), nft.goto(names.REFUSE)),
            (nft.InSet((headers.daddr,), names.SERVICE_CIDRS), nft.DROP),
        ),
        _chain("check-sources", (allowed, nft.SetPriority(), nft.RETURN), (nft.DROP,)),
        _chain(names.REFUSE, (nft.Reject(node.family),)),
        # A port of conntrack has no type but beside its protocol: hence a rule for each.
        _chain(
            "remember",
            *((each, *remember_service) for each in nft.PROTOCOLS),
            *((was_node_port, each, *remember_node_port) for each in nft.PROTOCOLS),
        ),
    )


def _localhost_check(node: NodeView, headers: nft.Headers) -> nft.Chain:
    """Node ports that are refused on loopback addresses, counted by protocol."""
    loopback = nft.in_prefix(headers.daddr, LOOPBACK[node.family])
    refused = nft.InSet(_NODE_PORT, names.LOCALHOST_NODEPORTS)
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
            for each, counter in names.LOCALHOST_COUNTER.items()
        ),
    )
