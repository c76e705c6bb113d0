"""The rules for healing: what they refer to, who has them, and that they come and go alone."""

import msgspec
import pytest

from dataplane.nftables.plane import Plane, service
from dataplane.nftables.programming import SETTINGS
from fakes.nftables import FakeNftables
from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables import healing, names
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.batch import FILLING_ORDER
from kubeproxy.dataplane.nftables.elements import Elements, key_in
from kubeproxy.dataplane.nftables.inspect import split
from kubeproxy.dataplane.nftables.language import (
    HEADERS,
    ChangeElement,
    Headers,
    InSet,
    Log,
    Program,
    RuleVerdict,
    SetPriority,
)
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.render import render, rule_text
from kubeproxy.table.entries import Entry, Frontend, FrontendKind
from kubeproxy.table.policy import Policy
from world import Mode, node

HERE = node(Mode.NFTABLES)
NODES = [pytest.param(node(Mode.NFTABLES, family), id=family.value) for family in Family]


def healed(entry: Entry, parts: Healing = Healing.ALL) -> Entry:
    return msgspec.structs.replace(entry, healing=parts)


def made(family: Family) -> Program:
    return program(node(Mode.NFTABLES, family), SETTINGS, heals=True)


@pytest.mark.parametrize("family", Family)
def test_healing_adds_to_the_program_and_changes_nothing_of_it(family: Family) -> None:
    fixed, added = split(made(family))
    assert fixed == program(node(Mode.NFTABLES, family), SETTINGS)
    assert {set_.name for set_ in added.sets} == names.OF_HEALING
    assert {chain.name for chain in added.chains} == names.CHAINS_OF_HEALING
    assert added.counters == names.COUNTERS_OF_HEALING
    assert split(fixed) == (fixed, Program(family, fixed.table, fixed.comment, (), (), ()))


@pytest.mark.parametrize("family", Family)
def test_every_chain_is_reached_and_every_set_used(family: Family) -> None:
    _, added = split(made(family))
    steps = [each for chain in added.chains for rule in chain.rules for each in rule]
    reached = {each.chain for each in steps if isinstance(each, RuleVerdict) and each.chain}
    hooked = {chain.name for chain in added.chains if chain.hook is not None}
    assert reached | hooked == names.CHAINS_OF_HEALING
    used = {each.set for each in steps if isinstance(each, InSet | ChangeElement)}
    assert used >= names.OF_HEALING


@pytest.mark.parametrize("family", Family)
def test_keys_fit_the_sets_and_the_registers(family: Family) -> None:
    everything = made(family)
    sets = {set_.name: set_ for set_ in everything.sets}
    for chain in split(everything)[1].chains:
        for statement in (each for rule in chain.rules for each in rule):
            match statement:
                case InSet(key, name) | ChangeElement(_, name, key):
                    wanted = sets[name]
                    assert [s.type for s in key] == [s.type for s in wanted.key], chain.name
                case SetPriority(key, name) if name:
                    assert [s.type for s in key] == [s.type for s in sets[name].key], chain.name
                case _:
                    continue
            if isinstance(statement, ChangeElement):
                data = [selector.type for selector in statement.data]
                assert data == [selector.type for selector in wanted.data], chain.name
                words = sum((s.type.size + 3) // 4 for s in (*statement.key, *statement.data))
                assert words <= 16, chain.name  # the kernel has so many registers


@pytest.mark.parametrize("family", Family)
def test_what_packets_fill_is_bounded_and_times_out(family: Family) -> None:
    for set_ in split(made(family))[1].sets:
        if set_.name in names.FILLED_BY_PACKETS:
            assert set_.dynamic, set_.name
            assert 0 < set_.size <= 2 * healing.MOST_GONE, set_.name
        else:
            assert set_.name in FILLING_ORDER
    for chain in healing.chains(nft_headers(family), 3):
        for statement in (each for rule in chain.rules for each in rule):
            if isinstance(statement, ChangeElement) and statement.change.name != "DELETE":
                assert statement.milliseconds > 0, statement.set


def nft_headers(family: Family) -> Headers:
    return HEADERS[family]


@pytest.mark.parametrize("family", Family)
def test_each_family_notifies_a_group_of_its_own(family: Family) -> None:
    chains = healing.chains(nft_headers(family), 3)
    steps = [each for chain in chains for rule in chain.rules for each in rule]
    assert {each.group for each in steps if isinstance(each, Log)} == {healing.GROUPS[family]}
    assert len(set(healing.GROUPS.values())) == len(Family)


def test_a_refused_connection_is_retried_once_and_more_often_while_others_are_answered() -> None:
    chains = {chain.name: chain for chain in healing.chains(nft_headers(Family.IPV4), 3)}
    connection = (
        "ct original ip saddr . ct original proto-src . ct original ip daddr . "
        "ct original proto-dst"
    )
    frontend = "ct original ip daddr . ct original proto-dst"
    # One for the first retry, and two for each of two further ones: looking it up counts.
    again = f"add @retries {{ {connection} timeout 15s limit rate 1/minute }}"
    retried = 'counter name "refused-retried" drop'
    given_up = 'counter name "refused-given-up"'
    assert [rule_text(rule) for rule in chains["retry"].rules[-3:]] == [
        f"ct protocol tcp {connection} @retries goto retry-again",
        f"ct protocol tcp {again} {retried}",
        given_up,
    ]
    assert [rule_text(rule) for rule in chains["retry-again"].rules] == [
        f"ct protocol tcp {frontend} @answering {again} {retried}",
        given_up,
    ]


# --- who is healed ----------------------------------------------------------------------------


def elements_of(plane: Plane) -> Elements:
    return {name: held for name, held in plane.table.elements().items() if held}


PORT_80 = bytes([0, 80, 0, 0])


async def test_frontends_of_a_healed_service_are_in_the_sets_of_its_parts() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1, node_port=30080)), service("db", 2))
    found = elements_of(plane)
    for kind in (names.RETRY_REFUSED, names.RETRY_UNANSWERED, names.RESET_GONE):
        assert [key_in(at) for at in found[kind[False]]] == [bytes([10, 112, 0, 1]) + PORT_80]
        assert [key_in(at) for at in found[kind[True]]] == [(30080).to_bytes(2, "big")]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Healing.RETRY_REFUSED, {names.RETRY_REFUSED[False]}),
        (Healing.RETRY_UNANSWERED, {names.RETRY_UNANSWERED[False]}),
        (Healing.RESET_GONE, {names.RESET_GONE[False]}),
        (
            Healing.RETRY_REFUSED | Healing.EJECT,
            {names.RETRY_REFUSED[False]},
        ),
    ],
)
async def test_each_part_can_be_had_alone(part: Healing, expected: set[str]) -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1), part))
    assert elements_of(plane).keys() & names.OF_HEALING == expected


async def test_nothing_is_retried_where_there_is_no_other_endpoint() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1, endpoints=1)))
    assert elements_of(plane).keys() & names.OF_HEALING == {names.RESET_GONE[False]}
    await plane.sync(healed(service("web", 1, endpoints=2)))
    assert names.RETRY_REFUSED[False] in elements_of(plane)


async def test_a_frontend_without_endpoints_is_not_retried() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1, endpoints=0)))
    assert elements_of(plane).keys() & names.OF_HEALING == {names.RESET_GONE[False]}


@pytest.mark.parametrize(
    ("local", "retried"),
    [
        pytest.param(0, True, id="clients-outside-get-no-endpoint"),
        pytest.param(1, False, id="clients-outside-have-no-choice"),
        pytest.param(2, True, id="all-have-a-choice"),
    ],
)
async def test_policy_local_is_retried_where_all_clients_have_a_choice(
    local: int, *, retried: bool
) -> None:
    entry = service("web", 1, endpoints=3)
    balancer = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.1", 80)
    here = tuple(msgspec.structs.replace(each, local=True) for each in entry.cluster[:local])
    plane = Plane(FakeNftables())
    await plane.sync(
        healed(
            msgspec.structs.replace(
                entry,
                frontends=(balancer,),
                local=here,
                external=Policy.EXTERNAL_LOCAL,
                externally_accessible=True,
            )
        )
    )
    assert (names.RETRY_REFUSED[False] in elements_of(plane)) is retried


# --- the rules come and go --------------------------------------------------------------------


def counted(plane: Plane) -> set[str]:
    return {name for name in plane.table.sets if name in names.OF_HEALING}


async def test_the_rules_come_with_the_first_service_and_nothing_else_is_written() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(service("web", 1))
    assert not counted(plane)
    before = plane.table.elements()
    await plane.sync(healed(service("web", 1)))
    assert counted(plane) == names.OF_HEALING
    assert plane.table.chains.keys() >= names.CHAINS_OF_HEALING
    assert {names.SYN_TIMEOUT, *names.COUNTERS_OF_HEALING} <= plane.table.objects
    kept = {name: held for name, held in plane.table.elements().items() if name in before}
    assert before == kept


async def test_the_rules_go_with_the_next_full_sync() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1)))
    await plane.sync(service("web", 1))
    assert counted(plane) == names.OF_HEALING
    assert not elements_of(plane).keys() & names.OF_HEALING
    await plane.sync(service("web", 1), full=True)
    assert not counted(plane)
    assert not plane.table.chains.keys() & names.CHAINS_OF_HEALING
    assert not plane.table.objects & {names.SYN_TIMEOUT, *names.COUNTERS_OF_HEALING}


async def test_a_restart_with_healing_writes_nothing() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1)), service("db", 2))
    again = plane.restarted()
    await again.sync(healed(service("web", 1)), service("db", 2))
    assert again.commits == 0


async def test_a_rule_for_healing_that_others_changed_is_mended_alone() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(healed(service("web", 1, affinity=60)))
    plane.table.sets[names.AFFINITY].elements[b"a pin"] = b"of a client"
    plane.table.chains["retry"].rules.clear()
    await plane.sync(healed(service("web", 1, affinity=60)), full=True)
    assert len(plane.table.chains["retry"].rules) > 1
    assert b"a pin" in plane.table.sets[names.AFFINITY].elements


def test_the_time_outs_as_nft_lists_them() -> None:
    text = render(made(Family.IPV6), (), {})
    policy = "\t\tprotocol tcp\n\t\tl3proto ip6\n\t\tpolicy = { syn_sent : 1 }\n"
    assert f"\tct timeout unanswered-syn {{\n{policy}\t}}\n" in text
    assert "\t\tflags dynamic,timeout\n\t\ttimeout 15m\n" in text


def test_only_tcp_is_healed_by_these_rules() -> None:
    text = " ".join(
        rule_text(rule)
        for chain in healing.chains(nft_headers(Family.IPV4), 3)
        for rule in chain.rules
    )
    assert Protocol.UDP.name.lower() not in text


async def test_a_kernel_that_cannot_heal_serves_what_asks_for_it() -> None:
    plane = Plane(FakeNftables())
    settings = msgspec.structs.replace(NftablesSettings(), can_heal=False)
    plane.nftables = Nftables(Family.IPV4, settings, plane.kernel, plane.guard)
    await plane.sync(healed(service("web", 1)))
    await plane.sync(healed(service("web", 1, endpoints=3)))
    assert not counted(plane)
    assert len(elements_of(plane)[names.SERVICE_ENDPOINTS]) == 3
