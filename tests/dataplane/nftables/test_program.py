"""What is fixed: the program, by settings. What it does to packets is in `test_walk`."""

import pytest

from dataplane.nftables.programming import SETTINGS, with_node
from fakes.nftables import FakeNftables
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import FILLING_ORDER, program_messages
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.language import (
    Chain,
    Dnat,
    InSet,
    Program,
    RuleVerdict,
    VerdictMap,
)
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.render import rule_text
from kubeproxy.table.node import NodeView, PodInterface
from world import Mode, node

HERE = node(Mode.NFTABLES)
NODES = [
    pytest.param(HERE, id="ipv4"),
    pytest.param(node(Mode.NFTABLES, Family.IPV6), id="ipv6"),
    pytest.param(with_node(HERE, localhost_gate=True), id="localhost"),
    pytest.param(with_node(HERE, detector=None), id="no-detector"),
    pytest.param(with_node(HERE, masquerade_all=True), id="masquerade-all"),
]


def rules(here: NodeView, chain: str, settings: NftablesSettings = SETTINGS) -> list[str]:
    (found,) = (each for each in program(here, settings).chains if each.name == chain)
    return [rule_text(rule) for rule in found.rules]


@pytest.mark.parametrize("here", NODES)
def test_a_kernel_takes_it(here: NodeView) -> None:
    made = program(here, SETTINGS)
    kernel = FakeNftables()
    kernel.commit(program_messages(made))
    table = kernel.ruleset.tables[NFPROTO[here.family], names.TABLE]
    assert [chain.name for chain in made.chains] == list(table.chains)
    assert [set_.name for set_ in made.sets] == list(table.sets)


def reached_from_hooks(made: Program) -> set[str]:
    chains = {chain.name: chain for chain in made.chains}
    waiting = [chain.name for chain in made.chains if chain.hook]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += [target for target in _targets(chains[name]) if target not in found]
    return found


def _targets(chain: Chain) -> list[str]:
    steps = [each for rule in chain.rules for each in rule]
    return [each.chain for each in steps if isinstance(each, RuleVerdict) and each.chain]


@pytest.mark.parametrize("here", NODES)
def test_every_chain_is_used(here: NodeView) -> None:
    made = program(here, SETTINGS)
    from_choices = {names.MARK_TO_MASQUERADE} | {
        names.pinned_chain(node_port=node_port, local=local) for node_port, local in names.LISTS
    }
    from_choices |= {
        names.follow_chain(node_port=node_port, local=local) for node_port, local in names.LISTS
    }
    from_choices |= set(map(names.draw_chain, names.LISTS.values()))
    assert {chain.name for chain in made.chains} == reached_from_hooks(made) | from_choices


@pytest.mark.parametrize("here", NODES)
def test_every_set_has_its_place_in_a_first_fill_or_is_filled_by_packets(here: NodeView) -> None:
    by_packets = {set_.name for set_ in program(here, SETTINGS).sets if set_.dynamic}
    assert by_packets == {*names.PINS.values(), *names.SHARED_PINS.values()}
    by_us = {set_.name for set_ in program(here, SETTINGS).sets} - by_packets
    assert by_us == set(FILLING_ORDER) - names.OF_HEALING - (
        set() if here.localhost_gate else {names.LOCALHOST_NODEPORTS}
    )


@pytest.mark.parametrize("here", NODES)
def test_keys_of_rules_have_the_types_of_the_sets_that_they_are_looked_up_in(
    here: NodeView,
) -> None:
    made = program(here, SETTINGS)
    sets = {set_.name: set_ for set_ in made.sets}
    for chain in made.chains:
        for rule in chain.rules:
            for each in rule:
                if isinstance(each, InSet | VerdictMap | Dnat):
                    set_ = sets[each.set if isinstance(each, InSet) else each.map]
                    assert [s.type for s in set_.key] == [s.type for s in each.key], rule


TO_FRONTENDS = "jump frontends"
MARKED = "ip daddr @cluster-ips-in-use {}jump mark-to-masquerade"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {}, [MARKED.format("ip saddr != 10.64.0.0/14 "), TO_FRONTENDS], id="pod-range"
        ),
        pytest.param(
            {"detector": PodInterface("cni0")},
            [MARKED.format('iifname != "cni0" '), TO_FRONTENDS],
            id="pod-interface",
        ),
        pytest.param({"masquerade_all": True}, [MARKED.format(""), TO_FRONTENDS], id="all"),
        pytest.param({"detector": None}, [TO_FRONTENDS], id="pods-cannot-be-detected"),
    ],
)
def test_cluster_ip_traffic_is_marked_by_its_source(
    settings: dict[str, object], expected: list[str]
) -> None:
    here = with_node(HERE, **settings)
    assert expected == rules(here, "nat/prerouting") == rules(here, "nat/output")
    # What is looked up late is marked as before, and led to the same chains.
    assert expected[:-1] == rules(here, "nat/prerouting-late")[:-2]
    assert rules(here, "nat/prerouting-late") == rules(here, "nat/output-late")


def test_the_mark_is_the_operators_bit() -> None:
    for bit, mark in ((0, "0x00000001"), (31, "0x80000000")):
        marked = rules(HERE, names.MARK_TO_MASQUERADE, NftablesSettings(masquerade_bit=bit))
        assert marked == [f"meta mark set meta mark | {mark}"]


def test_without_the_gate_nothing_is_said_of_loopback_addresses() -> None:
    made = program(HERE, SETTINGS)
    assert made.counters == (names.AFFINITY_FULL,)
    assert "localhost-check" not in {chain.name for chain in made.chains}
    gated = program(with_node(HERE, localhost_gate=True), SETTINGS)
    assert gated.counters[1:] == ("localhost-tcp", "localhost-udp", "localhost-sctp")


@pytest.mark.parametrize("counters", [True, False])
def test_endpoints_are_counted_when_asked_for(counters: bool) -> None:
    made = program(HERE, NftablesSettings(endpoint_counters=counters))
    counting = {set_.name for set_ in made.sets if set_.counter}
    lists = {
        names.SERVICE_ENDPOINTS,
        names.SERVICE_LOCAL_ENDPOINTS,
        names.NODEPORT_ENDPOINTS,
        names.NODEPORT_LOCAL_ENDPOINTS,
    }
    always = {names.SERVICE_CONNECTIONS, names.NODEPORT_CONNECTIONS}
    assert counting == (lists | always if counters else always)


# Of the releases 1.29 to 1.38; chains for a service or an endpoint have a slash in their names.
UPSTREAM_CHAINS = {
    *("filter-prerouting-pre-dnat", "filter-output-pre-dnat", "filter-prerouting", "filter-input"),
    *("filter-forward", "filter-output", "filter-output-post-dnat"),
    *("nat-prerouting", "nat-output", "nat-postrouting"),
    *("services", "service-endpoints-check", "nodeport-endpoints-check", "cluster-ips-check"),
    *("firewall-check", "reject-chain", "masquerading", "mark-for-masquerade"),
    *("endpoints-check", "firewall", "firewall-allow-check", "forward"),
    *(f"localhost-nodeport-reject-{protocol}" for protocol in ("tcp", "udp", "sctp")),
}
UPSTREAM_SETS = {
    *("cluster-ips", "nodeport-ips", "hairpin-connections", "firewall-ips"),
    *("service-ips", "service-nodeports", "no-endpoint-services", "no-endpoint-nodeports"),
    *("firewall", "firewall-allow", "localhost-nodeport-reject-ports"),
}
UPSTREAM_COUNTERS = {f"localhost-nodeport-rejected-{p}" for p in ("tcp", "udp", "sctp")}


@pytest.mark.parametrize("here", NODES)
def test_nothing_has_a_name_of_upstreams(here: NodeView) -> None:
    """So upstream, taking the table over, never finds what it deletes or changes in use by us."""
    made = program(here, SETTINGS)
    sets = {set_.name for set_ in made.sets}
    assert not sets & UPSTREAM_SETS
    assert not [name for name in sets if name.startswith("affinity-")]
    assert not set(made.counters) & UPSTREAM_COUNTERS
    assert not {chain.name for chain in made.chains} & UPSTREAM_CHAINS


@pytest.mark.parametrize("here", NODES)
def test_upstream_takes_the_hooks_for_its_own_and_no_other_chain(here: NodeView) -> None:
    """By the slash: it empties them when it starts, and deletes them later.

    A chain that something else leads to it could not delete.
    """
    chains = program(here, SETTINGS).chains
    hooks = {chain.name for chain in chains if chain.hook}
    assert {chain.name for chain in chains if "/" in chain.name} == hooks


def test_chains_stand_where_upstream_puts_them() -> None:
    hooks = [
        (chain.name, chain.hook.type, chain.hook.hook, chain.hook.priority)
        for chain in program(HERE, SETTINGS).chains
        if chain.hook
    ]
    assert hooks == [
        ("filter/prerouting-pre-dnat", "filter", "prerouting", -110),
        ("filter/output-pre-dnat", "filter", "output", -110),
        ("filter/input", "filter", "input", 0),
        ("filter/forward", "filter", "forward", 0),
        ("filter/output", "filter", "output", 0),
        ("filter/postrouting-remember", "filter", "postrouting", 90),
        ("nat/prerouting", "nat", "prerouting", -100),
        ("nat/prerouting-late", "nat", "prerouting", -90),
        ("nat/output", "nat", "output", -100),
        ("nat/output-late", "nat", "output", -90),
        ("nat/postrouting", "nat", "postrouting", 100),
    ]


def test_sets_whose_ranges_are_two_elements_are_known() -> None:
    """The kernel keeps ranges of concatenations as one element, and all others as two."""
    found = {s.name for s in program(HERE, SETTINGS).sets if s.interval and len(s.key) == 1}
    assert found == names.RANGE_SETS
