"""How many objects a change writes: nothing for no change, and no more than what differs."""

from collections.abc import Callable

import pytest

from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.table.entries import Entry
from world import Document, Mode, endpoint_slice, everywhere, node, service, table_of

Count = Callable[[EntryChange], int]


def entry(*documents: Document) -> Entry:
    return next(iter(table_of(*documents).entries.values()))


def tally(mode: Mode) -> Count:
    config = KubeProxyConfiguration(mode=mode.value)
    return load_mode(mode.value).tally(config, node(mode))


ONE, TWO = entry(service(), endpoint_slice("L1")), entry(service(), endpoint_slice("L1 R1"))
WIDE = entry(everywhere(), endpoint_slice("L1 R1"))
IDLE = entry(service())


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_no_change_writes_nothing(mode: Mode) -> None:
    count = tally(mode)
    for each in (None, ONE, WIDE, IDLE):
        assert count(EntryChange(each, each)) == 0


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.value)
def test_more_is_written_for_more(mode: Mode) -> None:
    count = tally(mode)
    small, large = count(EntryChange(None, ONE)), count(EntryChange(None, WIDE))
    assert count(EntryChange(ONE, TWO)) > 0
    assert 0 < small < large
    assert 0 < count(EntryChange(WIDE, None)) <= large


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # The chain of two with its rule, its number, an element of the list, a pair to itself.
        pytest.param(Mode.IPVS, 1, id="ipvs-a-real-server"),
    ],
)
def test_another_endpoint_elsewhere(mode: Mode, expected: int) -> None:
    assert tally(mode)(EntryChange(ONE, TWO)) == expected


def test_iptables_mode_writes_the_chains_of_the_service_again() -> None:
    # KUBE-SVC and two of KUBE-SEP with two rules each, and the rules in KUBE-SVC.
    count = tally(Mode.IPTABLES)
    assert count(EntryChange(ONE, TWO)) == 3 + 2 * 2 + 3
    assert count(EntryChange(IDLE, None)) == 1  # the rule that refuses
    assert count(EntryChange(IDLE, ONE)) == count(EntryChange(None, ONE)) + 1
