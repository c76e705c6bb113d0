"""What another program did to the kernel's table, in nft's words and with the service hit."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dataplane.nftables.generated import clusters, events, families, last_table, nodes
from dataplane.nftables.plane import HERE, service
from dataplane.nftables.programming import Rig, filled, table_with, with_node
from fakes.ruleset import KernelTable
from kubeproxy.base.inet import Family, Prefix, pack
from kubeproxy.dataplane.difference import Change, Difference
from kubeproxy.dataplane.nftables import drift as drift_module
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.drift import drift
from kubeproxy.dataplane.nftables.elements import frontend_key, head, number_tail, verdict_tail
from kubeproxy.dataplane.nftables.encode import new_chain, new_rule, new_set
from kubeproxy.dataplane.nftables.expressions import expression
from kubeproxy.dataplane.nftables.language import DROP, NEW, Chain, Hook, Masquerade, goto
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.linux.netlink.attribute import nested, u32
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind
from kubeproxy.table.node import NodeView
from world import prefix

A = service("a", 1, node_port=30001)
B = replace(service("b", 2), cluster=(Backend("10.64.3.11", 8080, local=True),))
NODE = with_node(
    HERE,
    addresses=("198.51.100.10",),
    node_port_ranges=(prefix("0.0.0.0/0"),),
    service_cidrs=(prefix("10.112.0.0/16"), prefix("10.200.0.0/24")),
)
FRONTEND = "element ip kube-proxy service-choices { 10.112.0.1 . tcp . 80"
CHECK = "rule ip kube-proxy refuse-cluster-ips"
DRAW = "meta priority set numgen random mod 2 offset 1 goto draw-from-service-endpoints"
AT = head(frontend_key(A.frontends[0], A.protocol))


@pytest.fixture(autouse=True)
def _no_nft(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_module, "rule_texts", lambda *_: {})


def rig(*entries: Entry, node: NodeView = NODE) -> Rig:
    return filled(table_with(*entries), node, heals=True)


def shown(there: Rig, *entries: Entry, refused: tuple[Entry, ...] = ()) -> list[str]:
    """The differences as `sign object | service port | reason`."""
    names = {entry.name for entry in refused}
    signs = {Change.ADD: "+", Change.REMOVE: "-", Change.REPLACE: "!"}
    return [
        " | ".join(filter(None, (f"{signs[each.change]} {each.object}", *_rest(each))))
        for each in drift(there.kernel, there.program, table_with(*entries), there.node, names)
    ]


def _rest(each: Difference) -> tuple[str, str]:
    return each.service_port, each.reason


# --- nothing to show --------------------------------------------------------------------------


def test_a_kernel_that_is_as_it_should_be() -> None:
    assert shown(rig(A, B), A, B) == []


def test_places_and_numbers_in_the_kernel_are_as_good_as_any_other() -> None:
    there = rig(service("a", 1, 4, affinity=60), B)
    fewer = replace(service("a", 1, 4, affinity=60), cluster=service("a", 1, 4).cluster[1:])
    there.fill(table_with(fewer, B), prune=False)
    assert shown(there, fewer, B) == []


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(service("a", 1, 3), id="of-three"),
        pytest.param(service("a", 1, node_port=30001, affinity=9), id="that-remember"),
    ],
)
def test_chains_of_unused_choices_are_no_difference(before: Entry) -> None:
    there = rig(before)
    there.fill(table_with(service("a", 1, 2)), prune=False)
    assert shown(there, service("a", 1, 2)) == []


def test_what_the_kernel_refused_is_not_missed() -> None:
    assert shown(rig(A), A, B, refused=(B,)) == []


# --- elements ---------------------------------------------------------------------------------


def test_a_frontend_that_is_gone() -> None:
    there = rig(A, B)
    del there.table.sets[names.SERVICE_CHOICES].elements[AT]
    assert shown(there, A, B) == [f"+ {FRONTEND} : {number(there)} }} | shop/a:http"]


def test_one_that_leads_elsewhere() -> None:
    there = rig(A, B)
    there.table.sets[names.SERVICE_CHOICES].elements[AT] = number_tail(77)
    assert shown(there, A, B) == [
        f"- {FRONTEND} : 0:4d }} | shop/a:http",
        f"+ {FRONTEND} : {number(there)} }} | shop/a:http",
    ]


def number(there: Rig, chain: str = "pick-2") -> str:
    return f"0:{there.state.numbers[chain]:x}"


def chain_of_number(there: Rig, chain: str = "pick-2") -> bytes:
    return head(there.state.numbers[chain].to_bytes(4, "little"))


def test_a_chain_that_no_number_leads_to_gets_its_number_back() -> None:
    there = rig(A, B)
    del there.table.sets[names.CHOICE_CHAINS].elements[chain_of_number(there)]
    assert shown(there, A, B) == [
        f"+ element ip kube-proxy choice-chains {{ {number(there)} : goto pick-2 }}"
    ]


def test_numbers_that_lead_to_the_wrong_chain() -> None:
    there = rig(A, B)
    chains = there.table.sets[names.CHOICE_CHAINS].elements
    chains[chain_of_number(there)] = verdict_tail(DROP)
    chains[head(bytes(3) + b"\x01")] = verdict_tail(goto("pick-2"))
    found = shown(there, A, B)
    assert f"- element ip kube-proxy choice-chains {{ {number(there)} : drop }}" in found
    there.fill(table_with(A, B))
    assert shown(there, A, B) == []


@pytest.mark.parametrize(
    ("code", "text"),
    [
        pytest.param(1, "accept", id="a-verdict-that-is-never-ours"),
        pytest.param(-77, "-77", id="an-unknown-verdict"),
    ],
)
def test_verdicts_of_others(code: int, text: str) -> None:
    there = rig(A)
    chains = there.table.sets[names.CHOICE_CHAINS].elements
    chains[chain_of_number(there)] = nested(2, nested(2, u32(1, code)))
    assert f"{{ {number(there)} : {text} }}" in shown(there, A)[0]


def test_a_protocol_that_is_never_ours() -> None:
    there = rig(A)
    gre = head(pack("10.112.0.1") + bytes([47, 0, 0, 0, 0, 80, 0, 0]))
    there.table.sets[names.SERVICE_CHOICES].elements[gre] = number_tail(1)
    assert shown(there, A) == [
        "- element ip kube-proxy service-choices { 10.112.0.1 . 47 . 80 : 0:1 }"
    ]


@pytest.mark.parametrize(
    ("set_", "element", "owner"),
    [
        (names.SERVICE_CONNECTIONS, "10.112.0.1 . tcp . 80", "shop/a:http"),
        (names.NODEPORT_CONNECTIONS, "tcp . 30001", "shop/a:http"),
        (names.NODEPORT_CHOICES, "tcp . 30001 : 0:1", "shop/a:http"),
        (names.CHOICE_CHAINS, "0:1 : goto masquerade-nodeport-pick-2", ""),
        (names.CLUSTER_IPS, "10.112.0.1", "shop/a"),
        (names.HAIRPINS, "10.64.3.11 . 10.64.3.11 . tcp . 8080", "shop/b:http"),
        (names.NODEPORT_ADDRESSES, "198.51.100.10", ""),
    ],
)
def test_whose_an_element_is(set_: str, element: str, owner: str) -> None:
    there = rig(A, B)
    there.table.sets[set_].elements.clear()
    suffix = f" | {owner}" if owner else ""
    assert f"+ element ip kube-proxy {set_} {{ {element} }}{suffix}" in shown(there, A, B)


def test_an_unwanted_endpoint_belongs_to_its_service_all_the_same() -> None:
    there = rig(service("a", 1, 3), B)
    there.fill(table_with(service("a", 1, 2), B), prune=False)
    assert shown(there, service("a", 1, 3), B) == [
        f"- {FRONTEND} : {number(there)} }} | shop/a:http",
        f"+ {FRONTEND} : {number(there, 'pick-3')} }} | shop/a:http",
        (
            "+ element ip kube-proxy service-endpoints"
            " { 10.112.0.1 . tcp . 80 . 0:3 : 10.65.1.2 . 8080 } | shop/a:http"
        ),
    ]


def test_elements_of_unknown_services() -> None:
    assert "- element ip kube-proxy cluster-ips-in-use { 10.112.0.2 }" in shown(rig(A, B), A)


def test_source_ranges() -> None:
    vip = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 443)
    entry = replace(A, frontends=(vip,), source_ranges=(Prefix("192.0.2.0", 25),))
    there = rig(entry)
    there.table.sets[names.FIREWALL_SOURCES].elements.clear()
    element = "0:1 . 192.0.2.0/25"
    assert shown(there, entry) == [
        f"+ element ip kube-proxy firewall-sources {{ {element} }} | shop/a:http"
    ]


@settings(max_examples=30)
@given(st.data(), families)
def test_every_element_that_would_be_written_is_shown_and_afterwards_none(
    data: st.DataObject, family: Family
) -> None:
    first = data.draw(clusters(family))
    there = filled(last_table(first, family), data.draw(nodes(family)), heals=True)
    table = last_table(first + data.draw(events(family)), family)
    wanted = there.program, table, there.node
    found = [each.object for each in drift(there.kernel, *wanted)]
    batch = there.fill(table, prune=False)
    written = [*batch.deleted.values(), *batch.added.values()]
    assert len({each for each in found if each.startswith("element ")}) == sum(map(len, written))
    assert len([each for each in found if each.startswith("chain ")]) == len(batch.chains)
    assert drift(there.kernel, *wanted) == []


# --- the node ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            ("10.112.0.0/20", "10.200.0.0/24"),
            ["- { 10.112.0.0/20 }", "+ { 10.112.0.0/16 }"],
            id="one-that-ended-elsewhere",
        ),
        pytest.param(
            ("10.112.0.0/16", "10.200.0.0/24", "240.0.0.0/4"),
            ["- { 240.0.0.0/4 }"],
            id="one-that-has-no-end",
        ),
        pytest.param(
            ("10.112.0.0/16", "10.200.0.0/24", "192.0.2.1/32", "192.0.2.2/31"),
            ["- { 192.0.2.1-192.0.2.3 }"],
            id="one-that-is-no-prefix",
        ),
        pytest.param((), ["+ { 10.112.0.0/16 }", "+ { 10.200.0.0/24 }"], id="none"),
    ],
)
def test_service_ranges_are_shown_as_ranges(before: tuple[str, ...], expected: list[str]) -> None:
    there = rig(A, node=with_node(NODE, service_cidrs=tuple(map(prefix, before))))
    there.node = NODE
    at = "element ip kube-proxy service-cidrs"
    assert shown(there, A) == [f"{line[0]} {at} {line[2:]}" for line in expected]


def test_a_range_that_begins_where_another_ends() -> None:
    """As others may write it; ours are joined."""
    there = rig(A)
    bounds = there.table.sets[names.SERVICE_CIDRS].elements
    bounds[head(pack("10.200.1.0"))] = b""
    bounds[head(pack("10.200.2.0")) + u32(3, 1)] = b""
    assert shown(there, A) == ["- element ip kube-proxy service-cidrs { 10.200.1.0/24 }"]


# --- chains -----------------------------------------------------------------------------------


def test_a_choice_that_is_gone_is_made_with_its_rules() -> None:
    there = rig(A)
    there.table.sets[names.CHOICE_CHAINS].elements.clear()
    del there.table.chains["pick-2"]
    assert shown(there, A)[:2] == [
        "+ chain ip kube-proxy pick-2",
        f"+ rule ip kube-proxy pick-2 {DRAW}",
    ]


def test_a_chain_of_another_program() -> None:
    there = rig(A)
    there.kernel.commit([new_chain(there.program, Chain("guest", ()))])
    assert shown(there, A) == ["- chain ip kube-proxy guest"]


# --- a table that would be replaced -----------------------------------------------------------

TABLE_LINE = "! table ip kube-proxy | it is not the program that it should be"


def test_there_is_no_table() -> None:
    there = rig(A)
    del there.kernel.ruleset.tables[NFPROTO_IPV4, TABLE]
    assert shown(there, A) == ["+ table ip kube-proxy | there is none: no service is served"]


def test_a_table_that_is_switched_off() -> None:
    there = rig(A)
    there.table.declared += u32(2, 1)
    assert shown(there, A) == [
        "! table ip kube-proxy | it is switched off (flags dormant): no service is served"
    ]


def set_gone(table: KernelTable) -> None:
    del table.sets[names.CLUSTER_IPS]


def map_gone(table: KernelTable) -> None:
    del table.sets[names.SERVICE_CHOICES]


def set_otherwise(table: KernelTable) -> None:
    set_ = table.sets[names.CLUSTER_IPS]
    set_.declared = set_.declared.replace(b"cluster IPs in use", b"another set")


def chain_gone(table: KernelTable) -> None:
    del table.chains["filter/forward"]


def rule_gone(table: KernelTable) -> None:
    del table.chains["refuse-cluster-ips"].rules[0]


def rules_swapped(table: KernelTable) -> None:
    table.chains["refuse-cluster-ips"].rules.reverse()


def rule_of_a_choice_gone(table: KernelTable) -> None:
    table.chains["pick-2"].rules.clear()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(set_gone, ["+ set ip kube-proxy cluster-ips-in-use"], id="set-gone"),
        pytest.param(map_gone, ["+ map ip kube-proxy service-choices"], id="map-gone"),
        pytest.param(
            set_otherwise,
            ["! set ip kube-proxy cluster-ips-in-use | it is declared otherwise"],
            id="set-otherwise",
        ),
        pytest.param(chain_gone, ["+ chain ip kube-proxy filter/forward"], id="chain-gone"),
        pytest.param(
            rule_gone,
            [f"+ {CHECK} ip daddr @cluster-ips-in-use goto refuse"],
            id="rule-gone",
        ),
        pytest.param(
            rules_swapped,
            [
                f"+ {CHECK} ip daddr @cluster-ips-in-use goto refuse",
                f"- {CHECK} ip daddr @cluster-ips-in-use goto refuse # handle 2",
            ],
            id="rules-swapped",
        ),
        pytest.param(
            rule_of_a_choice_gone,
            [
                f"+ rule ip kube-proxy pick-2 {DRAW}",
            ],
            id="rule-of-a-choice-gone",
        ),
    ],
)
def test_what_is_wrong_with_the_program(
    spoil: Callable[[KernelTable], None], expected: list[str]
) -> None:
    there = rig(A)
    spoil(there.table)
    assert shown(there, A) == [TABLE_LINE, *expected]


HOOK = Hook("filter", "forward", 2, -5, "-5")


@pytest.mark.parametrize(
    ("name", "hook", "expected"),
    [
        pytest.param(
            "filter/forward",
            HOOK,
            "it should be: type filter hook forward priority filter; policy accept;",
            id="another-priority",
        ),
        pytest.param(
            "frontends", HOOK, "it should have no hook", id="a-hook-where-none-should-be"
        ),
    ],
)
def test_a_chain_that_is_attached_otherwise(name: str, hook: Hook, expected: str) -> None:
    there = rig(A)
    declared = new_chain(there.program, Chain(name, (), hook))[20:]
    there.table.chains[name].declared = declared
    assert shown(there, A) == [TABLE_LINE, f"! chain ip kube-proxy {name} | {expected}"]


def test_sets_and_chains_that_are_not_the_programs() -> None:
    there = rig(service("a", 1, 3))
    there.fill(table_with(A), prune=False)
    guest = replace(there.program.sets[0], name="guests")
    there.kernel.commit(
        [new_set(there.program, guest, 99), new_chain(there.program, Chain("guest", ()))]
    )
    assert shown(there, A) == [
        TABLE_LINE,
        "- set ip kube-proxy guests",
        "- chain ip kube-proxy guest",
    ]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        pytest.param({}, "(ct, bitwise, cmp, made-up)", id="without-nft"),
        pytest.param({3: "ct state new made up"}, "ct state new made up", id="as-nft-lists-it"),
    ],
)
def test_a_rule_of_another_program(
    listed: dict[int, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift_module, "rule_texts", lambda *_: listed)
    there = rig(A)
    there.kernel.commit([new_rule(there.program, "refuse-cluster-ips", (NEW,))])
    there.table.chains["refuse-cluster-ips"].rules[-1] += expression("made-up")
    assert shown(there, A) == [
        TABLE_LINE,
        f"- rule ip kube-proxy refuse-cluster-ips {expected} # handle 3",
    ]


def test_a_rule_of_ours_in_another_place_is_shown_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without nft: of a large table, it would read every element."""
    monkeypatch.setattr(drift_module, "rule_texts", lambda *_: pytest.fail("nft was run"))
    there = rig(A)
    there.kernel.commit([new_rule(there.program, "frontends", (Masquerade(),))])
    assert shown(there, A) == [
        TABLE_LINE,
        "- rule ip kube-proxy frontends masquerade fully-random # handle 5",
    ]
