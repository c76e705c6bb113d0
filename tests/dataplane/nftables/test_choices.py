from itertools import product

import pytest
from msgspec.structs import replace

from dataplane.nftables.programming import with_node
from kubeproxy.dataplane.nftables.choices import (
    Choice,
    Pick,
    Remember,
    Split,
    chain_of,
    counts_in,
    with_parts,
)
from kubeproxy.dataplane.nftables.language import RuleVerdict
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.render import rule_text
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import PodInterface
from world import Mode, node

HERE = node(Mode.NFTABLES)
MOST = 65535
LONGEST_NAME = 127  # half of what kernels take, so that no one has to count


def picks(count: int) -> list[Pick]:
    return [
        Pick(node_port, local, count, sticky, balance)
        for node_port, local, sticky, balance in product(
            (False, True), (False, True), (False, True), Balance
        )
    ]


def masqueraded(pick: Pick) -> Pick:
    return replace(pick, masquerade=True)


def by_source(pick: Pick, here: Pick | None) -> Split:
    """What external traffic policy Local makes: the node is masqueraded."""
    return Split(pick, masqueraded(pick), here)


def remember_by_source(node_port: bool, seconds: int) -> Split:
    everywhere = Remember(node_port, False, seconds)
    return Split(everywhere, everywhere, Remember(node_port, True, seconds))


def every_choice(count: int, here: int) -> list[Choice]:
    """All ways of choosing among so many endpoints, of which some are here."""
    found: list[Choice] = []
    for pick in picks(count):
        found.append(pick)
        if not pick.local:
            local = Pick(pick.node_port, True, here, pick.sticky, pick.balance)
            found += [masqueraded(pick), by_source(pick, local), by_source(pick, None)]
    for node_port, seconds in product((False, True), (1, 86400)):
        found += [Remember(node_port, local, seconds) for local in (False, True)]
        found.append(remember_by_source(node_port, seconds))
    return found


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Pick(False, False, 3), "pick-3"),
        (Pick(True, False, 3), "nodeport-pick-3"),
        (Pick(False, True, 3, sticky=True), "pick-local-3-sticky"),
        (Pick(False, False, 3, False, Balance.ROUND_ROBIN), "pick-3-round-robin"),
        (
            Pick(True, True, 3, True, Balance.SOURCE_HASH),
            "nodeport-pick-local-3-source-hash-sticky",
        ),
        (masqueraded(Pick(True, False, 3)), "masquerade-nodeport-pick-3"),
        (by_source(Pick(False, False, 3), Pick(False, True, 2)), "local-2-of-pick-3"),
        (by_source(Pick(True, False, 3), None), "local-0-of-nodeport-pick-3"),
        (Remember(False, False, 10800), "remember-10800"),
        (Remember(False, True, 10800), "remember-local-10800"),
        (remember_by_source(True, 10800), "nodeport-remember-split-10800"),
    ],
)
def test_names_say_what_a_chain_does(choice: Choice, expected: str) -> None:
    assert expected == choice.chain


def test_names_are_none_of_upstreams() -> None:
    """Of those, the ones that depend on the cluster all have a slash."""
    names = [choice.chain for choice in every_choice(12, 2)]
    assert [name for name in names if "/" in name] == []
    assert [name for name in names if "pick-" not in name and "remember-" not in name] == []


@pytest.mark.parametrize(("count", "here"), [(1, 1), (12, 2), (MOST, MOST)])
def test_names_are_distinct_and_short_enough_for_the_kernel(count: int, here: int) -> None:
    chosen = every_choice(count, here)
    assert len({choice.chain for choice in chosen}) == len(set(chosen))
    assert max(len(choice.chain) for choice in chosen) <= LONGEST_NAME


@pytest.mark.parametrize(("count", "here"), [(1, 1), (12, 2), (MOST, 4711)])
def test_a_name_says_how_long_its_lists_are(count: int, here: int) -> None:
    for choice in every_choice(count, here):
        match choice:
            case Pick():
                expected = (0, count) if choice.local else (count, 0)
            case Split(pod=Pick()):
                expected = (count, here if choice.outside else 0)
            case _:
                expected = (0, 0)
        assert expected == counts_in(choice.chain), choice.chain


def test_chains_come_after_those_that_they_lead_to() -> None:
    chosen = with_parts(every_choice(3, 2))
    made = fixed = {chain.name for chain in program(HERE, NftablesSettings()).chains}
    for choice in chosen:
        chain = chain_of(choice, HERE)
        verdicts = [each for rule in chain.rules for each in rule if isinstance(each, RuleVerdict)]
        assert {verdict.chain for verdict in verdicts} <= made | {""}
        made = made | {chain.name}
    assert len(made) == len(chosen) + len(fixed)


def test_the_order_is_always_the_same() -> None:
    chosen = every_choice(3, 2)
    assert with_parts(chosen) == with_parts(reversed(chosen))


def text_of(choice: Choice, detector: object = HERE.detector) -> list[str]:
    return [rule_text(rule) for rule in chain_of(choice, with_node(HERE, detector=detector)).rules]


EVERYWHERE, HERE_ONLY = Pick(False, False, 3), Pick(False, True, 2)


@pytest.mark.parametrize(
    ("choice", "detector", "expected"),
    [
        pytest.param(
            by_source(EVERYWHERE, HERE_ONLY),
            HERE.detector,
            [
                "ip saddr 10.64.0.0/14 goto pick-3",
                "fib saddr type local goto masquerade-pick-3",
                "goto pick-local-2",
            ],
            id="local-policy",
        ),
        pytest.param(
            by_source(EVERYWHERE, None),
            PodInterface("cni", prefix=True),
            ['iifname "cni*" goto pick-3', "fib saddr type local goto masquerade-pick-3"],
            id="local-policy-without-local-endpoint",
        ),
        pytest.param(
            by_source(EVERYWHERE, HERE_ONLY),
            None,
            ["fib saddr type local goto masquerade-pick-3", "goto pick-local-2"],
            id="pods-cannot-be-detected",
        ),
        pytest.param(
            masqueraded(EVERYWHERE),
            HERE.detector,
            ["jump mark-to-masquerade", "goto pick-3"],
            id="cluster-policy-masquerades",
        ),
        pytest.param(
            remember_by_source(False, 60),
            HERE.detector,
            [
                "ip saddr 10.64.0.0/14 goto remember-60",
                "fib saddr type local goto remember-60",
                "goto remember-local-60",
            ],
            id="what-is-remembered-depends-on-the-client-as-the-choice-does",
        ),
        pytest.param(
            remember_by_source(False, 60),
            None,
            ["fib saddr type local goto remember-60", "goto remember-local-60"],
            id="remembered-where-pods-cannot-be-detected",
        ),
    ],
)
def test_rules(choice: Choice, detector: object, expected: list[str]) -> None:
    assert expected == text_of(choice, detector)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("node_port", [True, False])
def test_lists_pins_and_numbers_are_those_of_the_choice(node_port: bool, local: bool) -> None:
    plain = " ".join(text_of(Pick(node_port, local, 3)))
    sticky = " ".join(text_of(Pick(node_port, local, 3, sticky=True)))
    remember = " ".join(text_of(Remember(node_port, local, 60)))
    lists = ("nodeport" if node_port else "service") + ("-local" if local else "") + "-endpoints"
    pins = "local-affinity" if local else "affinity"
    numbers = "nodeport-affinity" if node_port else "service-affinity"
    fixed = {chain.name: chain for chain in program(HERE, NftablesSettings()).chains}
    (draw,) = (chain for name, chain in fixed.items() if plain.endswith(f"goto {name}"))
    (pinned,) = (chain for name, chain in fixed.items() if sticky.startswith(f"jump {name} "))
    known = " ".join(map(rule_text, pinned.rules))
    assert f"map @{lists}" in " ".join(map(rule_text, draw.rules))
    for text in (known, remember):
        assert f"map @{numbers}" in text
    assert f"map @{pins}" in known
    assert f"update @{pins} " in remember
