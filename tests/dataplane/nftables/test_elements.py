"""One entry of the table, and the elements that it becomes, as nft text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dataplane.nftables.programming import SETTINGS, with_node
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.batch import Batch
from kubeproxy.dataplane.nftables.chainnumbers import chain_elements, fresh_numbers
from kubeproxy.dataplane.nftables.choices import Choice, Pick, Remember, Split
from kubeproxy.dataplane.nftables.describe import element_text
from kubeproxy.dataplane.nftables.elements import (
    Elements,
    entry_elements,
    head,
    list_head,
    list_heads,
    list_tail,
    list_tails,
    node_elements,
    replaced_elements,
    shared_elements,
    tail,
    together,
    without_data,
)
from kubeproxy.dataplane.nftables.placed import (
    Placed,
    choice_of,
    choices,
    refusal_of,
    remember_of,
    served,
)
from kubeproxy.dataplane.nftables.places import Places, Replaced, place
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.table.diff import list_changes
from kubeproxy.table.entries import (
    Backend,
    Balance,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
)
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Policy, Refusal
from world import CLUSTER_IP, EXTERNAL_IP, NODE_PORT, VIP, Mode, node, prefix

HERE = node(Mode.NFTABLES)
NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)
CLUSTER = Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 80)
BALANCER = Frontend(FrontendKind.LOAD_BALANCER, VIP, 80)
EXTERNAL = Frontend(FrontendKind.EXTERNAL_IP, EXTERNAL_IP, 80)
PORT = Frontend(FrontendKind.NODE_PORT, "", NODE_PORT)
L1 = Backend("10.64.3.11", 8080, local=True)
R1 = Backend("10.65.7.21", 8080)


def masqueraded(pick: Pick) -> Pick:
    return replace(pick, masquerade=True)


def placed(*frontends: Frontend, **fields: object) -> Placed:
    entry = Entry(NAME, frontends, **fields)  # type: ignore[arg-type]  # as given
    return place(entry, None, 7, 3)


def elements_of(placed: Placed, here: NodeView = HERE) -> Elements:
    """The elements of an entry, and those that lead to the chains of its choices."""
    numbers = fresh_numbers(sorted({choice.chain for choice in choices(placed)}), {})
    return together([entry_elements(placed, here, numbers), chain_elements(numbers)])


def replaced(before: Placed, entry: Entry) -> tuple[Replaced, dict[str, int]]:
    """The next state of an entry, and the numbers of the chains of both states."""
    change = Places().replace(before, entry, list_changes(before.entry, entry), (7, 3))
    states = (before, change.after)
    chains = sorted({choice.chain for each in states for choice in choices(each)})
    return change, fresh_numbers(chains, {})


def texts(found: Elements, here: NodeView = HERE) -> dict[str, list[str]]:
    """Elements by their set, as nft writes them."""
    sets = {set_.name: set_ for set_ in program(here, SETTINGS).sets}
    lines: dict[str, list[str]] = {}
    for name, elements in found.items():
        lines[name] = [element_text(sets[name], each, data) for each, data in elements.items()]
    return lines


def without(found: dict[str, list[str]], *left_out: str) -> dict[str, list[str]]:
    return {name: lines for name, lines in found.items() if name not in left_out}


COUNTED = (names.SERVICE_CONNECTIONS, names.NODEPORT_CONNECTIONS)
AT = "10.112.0.21 . tcp . 80"


def test_a_cluster_ip() -> None:
    found = texts(elements_of(placed(CLUSTER, cluster=(L1, R1), has_endpoints=True)))
    assert found == {
        names.SERVICE_CONNECTIONS: [f"{AT} counter packets 0 bytes 0"],
        names.SERVICE_CHOICES: [f"{AT} : 0:1"],
        names.CHOICE_CHAINS: ["0:1 : goto pick-2"],
        names.SERVICE_ENDPOINTS: [
            f"{AT} . 0:1 : 10.64.3.11 . 8080",
            f"{AT} . 0:2 : 10.65.7.21 . 8080",
        ],
    }


def test_a_node_port_with_local_policy_and_affinity() -> None:
    entry = placed(
        PORT,
        cluster=(L1, R1),
        local=(L1,),
        has_endpoints=True,
        external=Policy.EXTERNAL_LOCAL,
        affinity_seconds=60,
    )
    assert without(texts(elements_of(entry)), *COUNTED) == {
        names.NODEPORT_CHOICES: ["tcp . 31080 : 0:1"],
        names.CHOICE_CHAINS: ["0:1 : goto local-1-of-nodeport-pick-2-sticky"],
        names.NODEPORT_ENDPOINTS: [
            "tcp . 31080 . 0:1 : 10.64.3.11 . 8080",
            "tcp . 31080 . 0:2 : 10.65.7.21 . 8080",
        ],
        names.NODEPORT_LOCAL_ENDPOINTS: ["tcp . 31080 . 0:1 : 10.64.3.11 . 8080"],
        names.PINNED[True, False]: [
            "tcp . 31080 . fb9b:2b5c : 10.64.3.11 . 8080",
            "tcp . 31080 . 91ab:701f : 10.65.7.21 . 8080",
        ],
        names.PINNED[True, True]: ["tcp . 31080 . fb9b:2b5c : 10.64.3.11 . 8080"],
        names.NODEPORT_AFFINITY: ["tcp . 31080 : 0:7"],
        names.REMEMBER_NODEPORTS: ["tcp . 31080 : 0:2"],
        names.REMEMBER_CHAINS: ["0:2 : goto nodeport-remember-split-60"],
    }


def test_a_load_balancer_with_source_ranges() -> None:
    entry = placed(
        BALANCER,
        EXTERNAL,
        cluster=(R1,),
        has_endpoints=True,
        source_ranges=(prefix("192.0.2.0/25"), prefix("192.0.2.128/26")),
        own_vips=True,
    )
    found = texts(elements_of(entry))
    assert found[names.FIREWALL_IPS] == ["203.0.113.7 . tcp . 80 : 0:3"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"has_endpoints": False}, names.SERVICE_REFUSALS, id="no-endpoint"),
        pytest.param(
            {"has_endpoints": True, "internal": Policy.INTERNAL_LOCAL},
            names.SERVICE_DROPS,
            id="no-local-endpoint",
        ),
    ],
)
def test_refusals_without_an_endpoint(fields: dict[str, object], expected: str) -> None:
    found = without(texts(elements_of(placed(CLUSTER, **fields))), *COUNTED)
    assert found == {expected: [AT]}


def test_endpoints_for_pods_and_none_for_others() -> None:
    entry = placed(PORT, cluster=(R1,), has_endpoints=True, external=Policy.EXTERNAL_LOCAL)
    assert without(texts(elements_of(entry)), *COUNTED) == {
        names.NODEPORT_CHOICES: ["tcp . 31080 : 0:1"],
        names.CHOICE_CHAINS: ["0:1 : goto local-0-of-nodeport-pick-1"],
        names.NODEPORT_ENDPOINTS: ["tcp . 31080 . 0:1 : 10.65.7.21 . 8080"],
        names.NODEPORT_DROPS: ["tcp . 31080"],
    }


@pytest.mark.parametrize(
    ("gate", "ranges", "protocol", "expected"),
    [
        pytest.param(False, (), Protocol.TCP, [], id="without-the-gate"),
        pytest.param(True, (), Protocol.TCP, ["tcp . 31080"], id="refused"),
        pytest.param(True, ("127.0.0.0/8",), Protocol.TCP, [], id="tcp-is-served-by-a-proxy"),
        pytest.param(True, ("127.0.0.0/8",), Protocol.UDP, ["udp . 31080"], id="udp-is-not"),
    ],
)
def test_node_ports_of_loopback_addresses(
    gate: bool, ranges: tuple[str, ...], protocol: Protocol, expected: list[str]
) -> None:
    here = with_node(HERE, localhost_gate=gate, node_port_ranges=tuple(map(prefix, ranges)))
    entry = Entry(NAME._replace(protocol=protocol), (CLUSTER, PORT))
    found = texts(elements_of(place(entry, None, 0), here), with_node(here, localhost_gate=True))
    assert expected == found.get(names.LOCALHOST_NODEPORTS, [])


# --- choices ----------------------------------------------------------------------------------


ALL_1, ALL_2, HERE_1 = Pick(False, False, 1), Pick(False, False, 2), Pick(False, True, 1)
PORT_2, PORT_1 = Pick(True, False, 2), Pick(True, True, 1)
BOTH: dict[str, object] = {"cluster": (L1, R1), "local": (L1,), "has_endpoints": True}


@pytest.mark.parametrize(
    ("frontend", "fields", "expected"),
    [
        pytest.param(CLUSTER, BOTH, ALL_2, id="cluster-ip"),
        pytest.param(
            CLUSTER, {**BOTH, "internal": Policy.INTERNAL_LOCAL}, HERE_1, id="cluster-ip-local"
        ),
        pytest.param(
            CLUSTER, {**BOTH, "external": Policy.EXTERNAL_LOCAL}, ALL_2, id="not-the-other-policy"
        ),
        pytest.param(
            EXTERNAL,
            {**BOTH, "internal": Policy.INTERNAL_LOCAL},
            masqueraded(ALL_2),
            id="nor-here",
        ),
        pytest.param(PORT, BOTH, masqueraded(PORT_2), id="node-port"),
        pytest.param(
            PORT,
            {**BOTH, "external": Policy.EXTERNAL_LOCAL},
            Split(PORT_2, masqueraded(PORT_2), PORT_1),
            id="node-port-local",
        ),
        pytest.param(
            BALANCER,
            {"cluster": (R1,), "external": Policy.EXTERNAL_LOCAL},
            Split(ALL_1, masqueraded(ALL_1), None),
            id="no-local-endpoint",
        ),
        pytest.param(BALANCER, {"external": Policy.EXTERNAL_LOCAL}, None, id="no-endpoint"),
        pytest.param(CLUSTER, {}, None, id="cluster-ip-without-endpoint"),
        pytest.param(
            CLUSTER,
            {"cluster": (R1,), "internal": Policy.INTERNAL_LOCAL},
            None,
            id="cluster-ip-without-local-endpoint",
        ),
        pytest.param(
            CLUSTER,
            {**BOTH, "affinity_seconds": 9, "balance": Balance.ROUND_ROBIN},
            Pick(False, False, 2, True, Balance.ROUND_ROBIN),
            id="sticky-and-in-turn",
        ),
    ],
)
def test_how_a_frontend_chooses(
    frontend: Frontend, fields: dict[str, object], expected: Choice | None
) -> None:
    assert expected == choice_of(placed(frontend, **fields), frontend)


@pytest.mark.parametrize(
    ("frontend", "fields", "expected"),
    [
        pytest.param(CLUSTER, BOTH, None, id="has-endpoints"),
        pytest.param(CLUSTER, {}, Refusal.REJECT, id="no-endpoint"),
        pytest.param(
            CLUSTER,
            {"has_endpoints": True, "internal": Policy.INTERNAL_LOCAL},
            Refusal.DROP,
            id="no-local-endpoint",
        ),
        pytest.param(
            PORT,
            {"has_endpoints": True, "internal": Policy.INTERNAL_LOCAL},
            Refusal.DROP,
            id="policy-cluster",
        ),
        pytest.param(
            PORT,
            {"cluster": (R1,), "has_endpoints": True, "external": Policy.EXTERNAL_LOCAL},
            Refusal.DROP,
            id="policy-local",
        ),
    ],
)
def test_what_becomes_of_packets_without_an_endpoint(
    frontend: Frontend, fields: dict[str, object], expected: Refusal | None
) -> None:
    assert expected == refusal_of(placed(frontend, **fields), frontend)


@pytest.mark.parametrize(
    ("frontend", "fields", "expected"),
    [
        pytest.param(CLUSTER, {}, None, id="no-affinity"),
        pytest.param(CLUSTER, {"affinity_seconds": 9}, Remember(False, False, 9), id="of-all"),
        pytest.param(
            CLUSTER,
            {"affinity_seconds": 9, "internal": Policy.INTERNAL_LOCAL},
            Remember(False, True, 9),
            id="of-this-node",
        ),
        pytest.param(PORT, {"affinity_seconds": 9}, Remember(True, False, 9), id="node-port"),
        pytest.param(
            BALANCER,
            {
                "affinity_seconds": 9,
                "external": Policy.EXTERNAL_LOCAL,
                "internal": Policy.INTERNAL_LOCAL,
            },
            Split(Remember(False, False, 9), Remember(False, False, 9), Remember(False, True, 9)),
            id="it-depends-on-the-client",
        ),
    ],
)
def test_how_a_choice_is_remembered(
    frontend: Frontend, fields: dict[str, object], expected: Remember | Split | None
) -> None:
    assert expected == remember_of(placed(frontend, **fields), frontend)


def test_of_two_frontends_with_one_address_the_strictest_counts() -> None:
    same = Frontend(FrontendKind.EXTERNAL_IP, CLUSTER_IP, 80)
    elsewhere = Frontend(FrontendKind.EXTERNAL_IP, CLUSTER_IP, 81)
    entry = Entry(NAME, (same, elsewhere, CLUSTER))
    assert [CLUSTER, elsewhere] == sorted(served(entry), key=lambda each: each.port)


# --- what is shared, and the node's -----------------------------------------------------------


def test_what_entries_share() -> None:
    entry = Entry(NAME, (CLUSTER, EXTERNAL), cluster=(L1, R1), local=(L1,))
    found = texts(without_data(shared_elements(entry)))
    assert found == {
        names.CLUSTER_IPS: [CLUSTER_IP],
        names.HAIRPINS: ["10.64.3.11 . 10.64.3.11 . tcp . 8080"],
    }


def test_elements_of_the_node() -> None:
    here = with_node(
        HERE,
        service_cidrs=(prefix("10.113.0.0/16"), prefix("10.112.0.0/16"), prefix("10.120.0.0/16")),
    )
    found = texts(node_elements(here))
    assert found[names.NODEPORT_ADDRESSES] == ["198.51.100.10"]
    bounds = ["10.112.0.0", "10.114.0.0", "10.120.0.0", "10.121.0.0"]
    assert bounds == found[names.SERVICE_CIDRS]


@pytest.mark.parametrize("family", Family)
def test_a_range_up_to_the_last_address_has_no_end(family: Family) -> None:
    last = {Family.IPV4: "255.0.0.0/8", Family.IPV6: "ff00::/8"}[family]
    here = with_node(node(Mode.NFTABLES, family), service_cidrs=(prefix(last),))
    assert len(node_elements(here)[names.SERVICE_CIDRS]) == 1


def test_of_elements_that_stand_in_two_parts_the_later_count() -> None:
    parts: list[Elements] = [
        {"a": {b"1": b"x", b"2": b"x"}},
        {},
        {"a": {b"2": b"y"}, "b": {b"1": b""}},
    ]
    assert together(parts) == {"a": {b"1": b"x", b"2": b"y"}, "b": {b"1": b""}}


# --- two states of an entry -------------------------------------------------------------------


BACKENDS = [Backend(f"10.64.3.{last}", 8080, local=last % 2 == 0) for last in range(11, 19)]


@st.composite
def states(draw: st.DrawFn) -> Placed:
    frontends = draw(st.lists(st.sampled_from([CLUSTER, BALANCER, EXTERNAL, PORT]), unique=True))
    chosen = tuple(draw(st.lists(st.sampled_from(BACKENDS), unique=True)))
    return placed(
        *frontends,
        cluster=chosen,
        local=tuple(backend for backend in chosen if backend.local),
        internal=draw(st.sampled_from(list(Policy)[:2])),
        external=draw(st.sampled_from(list(Policy)[2:])),
        affinity_seconds=draw(st.sampled_from([0, 60])),
    )


@given(states(), states())
def test_what_both_states_have_makes_no_difference(before: Placed, after: Placed) -> None:
    change, numbers = replaced(before, after.entry)
    alone = [entry_elements(each, HERE, numbers) for each in (change.before, change.after)]
    assert changed(*alone) == changed(*replaced_elements(change, (HERE, HERE), numbers))


def changed(before: Elements, after: Elements) -> tuple[dict[str, set[bytes]], ...]:
    batch = Batch()
    for name in {*before, *after}:
        batch.change(name, before.get(name, {}), after.get(name, {}))
    return tuple({n: {*each} for n, each in of.items()} for of in (batch.deleted, batch.added))


def test_of_a_long_list_only_the_places_that_changed_become_elements() -> None:
    before = placed(CLUSTER, cluster=tuple(BACKENDS))
    entry = replace(before.entry, cluster=(*BACKENDS[:-2], R1, BACKENDS[-1]))
    change, numbers = replaced(before, entry)
    _, after = replaced_elements(change, (HERE, HERE), numbers)
    assert texts(after)[names.SERVICE_ENDPOINTS] == [
        f"{CLUSTER_IP} . tcp . 80 . 0:7 : 10.65.7.21 . 8080"
    ]


# --- bytes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [bytes(range(8)), bytes(range(12)), bytes(range(24))])
@pytest.mark.parametrize("count", [0, 1, 4096, 4097])
def test_heads_of_a_list_are_those_that_are_made_one_at_a_time(key: bytes, count: int) -> None:
    assert [list_head(key, index) for index in range(count)] == list_heads(key, count)


@pytest.mark.parametrize(
    "backends",
    [
        pytest.param((), id="none"),
        pytest.param((L1, R1, Backend("10.65.7.21", 53)), id="ipv4"),
        pytest.param((Backend("fd40::11", 8080), Backend("fd40::", 1)), id="ipv6"),
    ],
)
def test_tails_of_a_list_are_those_that_are_made_one_at_a_time(
    backends: tuple[Backend, ...],
) -> None:
    assert [list_tail(backend) for backend in backends] == list_tails(backends)


def test_the_bytes_of_a_place_in_a_list() -> None:
    assert list_head(b"frontend", 258) == head(b"frontend" + (259).to_bytes(4, "little"))
    assert list_tail(L1) == tail(bytes([10, 64, 3, 11, 0x1F, 0x90, 0, 0]))
