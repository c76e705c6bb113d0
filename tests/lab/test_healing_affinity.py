"""Clients with session affinity leave their endpoint when it fails, and only then."""

from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.program import NftablesSettings
from lab.attempts import HOST, POD, Attempt, attempt
from lab.deploy import ETP_LOCAL, affinity, deploy, everywhere
from lab.failures import IS_SILENT, REFUSES, failing
from lab.healed import PORTS, Healer, healed, healer
from lab.modes import only
from lab.outcome import Probe
from lab.plan import crowd, vip
from lab.stage import Lab
from world import Document

FOUR = "L1 L2 R1 R2"
HERE = "L1 L2 L3 R1"
CLIENTS = 8
"""Two for each of four endpoints, which come in turn."""
FAILURES = pytest.mark.parametrize("failure", [REFUSES, IS_SILENT], ids=["refuses", "is-silent"])

pytestmark = only("nftables", reason="other modes do not heal")


def sticky(endpoints: str, spec: Document | None = None) -> list[Document]:
    return healed(deploy("web", everywhere(21), endpoints, PORTS, {**affinity(), **(spec or {})}))


def crowded(kernel: Healer, clients: int = CLIENTS) -> list[Attempt]:
    """Each of so many clients once, from outside."""
    family = kernel.family
    return attempt(
        kernel.network,
        (Probe("X", crowd(n, family), vip(21, family), 80) for n in range(clients)),
    )


def chosen(kernel: Healer, clients: int = CLIENTS) -> list[str]:
    """Which endpoint each of the clients has; the first SYN reaches it."""
    found = crowded(kernel, clients)
    assert {each.retries for each in found} == {0}
    return [each.who for each in found]


@FAILURES
def test_clients_of_an_endpoint_that_fails_get_another_and_keep_it(
    kernel: Healer, failure: str
) -> None:
    """Others keep theirs; and nobody goes back when it answers again."""
    kernel.put(sticky(FOUR))
    turn = kernel.turn()
    first = chosen(kernel)
    assert first == [*turn, *turn]
    for _ in range(5):
        assert chosen(kernel) == first
    with failing(kernel.network, failure, turn[-1]) as failures:
        found = crowded(kernel)
        moved = [each.who for each in found]
        assert moved[:3] == first[:3]
        assert moved[4:7] == first[4:7]
        assert {moved[3], moved[7]} == {turn[0], turn[1]}
        assert [each.retries for each in found] == [0, 0, 0, 1, 0, 0, 0, 1]
        assert failures[turn[-1]].count == 2
        assert chosen(kernel) == moved
    assert chosen(kernel) == moved


@FAILURES
def test_pods_and_the_node_have_pins_that_move_too(kernel: Healer, failure: str) -> None:
    kernel.put(sticky(FOUR))
    turn = kernel.turn()
    ways = (POD, HOST)
    assert kernel.dial(ways) == [Attempt(turn[0]), Attempt(turn[1])]
    with failing(kernel.network, failure, *turn[:2]):
        found = kernel.dial(ways)
        assert {each.who for each in found} == {*turn[2:]}
        assert [each.retries for each in found] == [1, 1]
    assert kernel.dial(ways) == [Attempt(each.who) for each in found]


def test_pins_move_where_refused_connections_alone_are_retried(kernel: Healer) -> None:
    """Then nothing but the refusal itself says that the pin is of no use."""
    documents = deploy("web", everywhere(21), FOUR, PORTS, affinity())
    kernel.put(healed(documents, "retryRefused"))
    turn = kernel.turn()
    assert kernel.dial((POD, HOST)) == [Attempt(turn[0]), Attempt(turn[1])]
    with failing(kernel.network, REFUSES, *turn[:2]):
        assert {each.who for each in kernel.dial((POD, HOST))} == {*turn[2:]}


@FAILURES
def test_pins_among_endpoints_of_this_node(kernel: Healer, failure: str) -> None:
    """With policy Local they are in a map of their own, and the retry stays on the node."""
    kernel.put(sticky(HERE, ETP_LOCAL))
    turn = kernel.turn(local=True)
    assert len(turn) == 3
    first = chosen(kernel, 6)
    assert first == [*turn, *turn]
    with failing(kernel.network, failure, turn[-1]):
        found = crowded(kernel, 6)
        moved = [each.who for each in found]
        assert set(moved) == {*turn[:-1]}
        assert [each.retries for each in found] == [0, 0, 1, 0, 0, 1]
        kept = [(then, now) for then, now in zip(first, moved, strict=True) if then != turn[-1]]
        assert all(then == now for then, now in kept)
        assert chosen(kernel, 6) == moved


@pytest.fixture
def full(lab: Lab, family: Family) -> Iterator[Healer]:
    """With room for the pin of one client."""
    lab.stop()
    with healer(lab.network, family, NftablesSettings(affinity_size=1)) as opened:
        yield opened


@FAILURES
def test_clients_that_found_the_map_of_pins_full(full: Healer, failure: str) -> None:
    """They share places, which move as pins do."""
    full.put(sticky(FOUR))
    first = chosen(full)
    last = full.turn()[-1]
    assert last in first
    with failing(full.network, failure, last):
        moved = [each.who for each in crowded(full)]
        assert last not in moved
        kept = [(then, now) for then, now in zip(first, moved, strict=True) if then != last]
        assert all(then == now for then, now in kept)
        assert chosen(full) == moved
