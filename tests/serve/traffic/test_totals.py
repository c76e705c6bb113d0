"""Totals only grow, whatever the kernel's counters do."""

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.contract import Count, Target
from kubeproxy.serve.traffic.totals import (
    NOTHING,
    PortRates,
    Tally,
    Totals,
    TrafficWindow,
    accumulate,
)
from kubeproxy.table.entries import Backend, Frontend, FrontendKind, ServicePortName

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
CLUSTER = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
NODE_PORT = Frontend(FrontendKind.NODE_PORT, "", 31080)
L1 = Backend("10.64.3.11", 8080, local=True)
R1 = Backend("10.65.7.21", 8080)


@pytest.mark.parametrize(
    ("before", "value", "reset", "expected"),
    [
        pytest.param(NOTHING, 7, True, (7, 7), id="a-process-that-starts-goes-on-from-the-kernel"),
        pytest.param(NOTHING, 7, False, (7, 7), id="a-frontend-that-is-new"),
        pytest.param(Tally({CLUSTER: 7}, {}, {"c": 7}), 9, False, (9, 9), id="it-grew"),
        pytest.param(Tally({CLUSTER: 7}, {}, {"c": 7}), 7, False, (7, 7), id="it-stayed"),
        pytest.param(Tally({CLUSTER: 7}, {}, {"c": 7}), 2, False, (9, 2), id="it-began-again"),
        pytest.param(
            Tally({CLUSTER: 7}, {}, {"c": 7}),
            8,
            True,
            (15, 8),
            id="all-began-again-and-it-is-beyond-where-it-was",
        ),
        pytest.param(
            Tally({CLUSTER: 15}, {}, {"c": 8}),
            9,
            False,
            (16, 9),
            id="it-grew-after-that",
        ),
        pytest.param(
            Tally({CLUSTER: 15}, {}, {"c": 8}), None, False, (15, 8), id="it-was-not-read"
        ),
        pytest.param(
            Tally({CLUSTER: 15}, {}, {"c": 8}), None, True, (15, 0), id="not-read-and-begun-again"
        ),
    ],
)
def test_one_frontend(
    before: Tally, value: int | None, reset: bool, expected: tuple[int, int]
) -> None:
    total, seen = expected
    after = accumulate(before, [Count(CLUSTER, "c", value)], reset=reset)
    assert Tally({CLUSTER: total}, {}, {"c": seen}) == after


def test_counters_of_one_frontend_are_added_up() -> None:
    """A node port of ipvs mode has one for each address of the node."""
    counts = [Count(NODE_PORT, "a", 3), Count(NODE_PORT, "b", 4)]
    first = accumulate(NOTHING, counts, reset=False)
    assert first.frontends == {NODE_PORT: 7}
    again = accumulate(first, [Count(NODE_PORT, "a", 4), Count(NODE_PORT, "b", 1)], reset=False)
    assert again.frontends == {NODE_PORT: 9}


@pytest.mark.parametrize(
    ("counts", "reset", "same"),
    [
        pytest.param([Count(CLUSTER, "c", 7)], False, True, id="idle"),
        pytest.param([Count(CLUSTER, "c", 8)], False, False, id="busy"),
        pytest.param([Count(CLUSTER, "c", 7)], True, False, id="made-again"),
        pytest.param([Count(NODE_PORT, "c", 7)], False, False, id="of-another-kind-now"),
        pytest.param([Count(CLUSTER, "d", 7)], False, False, id="another-counter"),
        pytest.param(
            [Count(CLUSTER, "c", 7), Count(L1, "e", 0)], False, False, id="something-new"
        ),
    ],
)
def test_the_tally_of_an_idle_service_is_the_same_object(
    counts: list[Count], reset: bool, same: bool
) -> None:
    before = Tally({CLUSTER: 7}, {}, {"c": 7})
    assert same == (accumulate(before, counts, reset=reset) is before)


def test_what_is_not_in_the_reading_is_no_more() -> None:
    before = Tally({CLUSTER: 7, NODE_PORT: 9}, {L1: 3}, {"c": 7, "n": 9, "e": 3})
    after = accumulate(before, [Count(CLUSTER, "c", 8)], reset=False)
    assert Tally({CLUSTER: 8}, {}, {"c": 8}) == after


def test_an_endpoint_takes_its_total_to_another_place() -> None:
    first = accumulate(NOTHING, [Count(L1, "0 L1", 5), Count(R1, "1 R1", 6)], reset=False)
    assert first.endpoints == {L1: 5, R1: 6}
    after = accumulate(first, [Count(R1, "0 R1", 2)], reset=False)
    assert Tally({}, {R1: 8}, {"0 R1": 2}) == after


class Kernel:
    """A counter that may begin again, and what truly happened."""

    def __init__(self) -> None:
        self.value = 0
        self.epoch = 0


READINGS = st.lists(
    st.tuples(
        st.integers(0, 1000),  # connections since the reading before
        st.sampled_from(["nothing", "table made again", "counter replaced", "not read"]),
        st.integers(0, 1000),  # connections after that
    ),
    max_size=20,
)


@given(READINGS)
def test_a_total_never_goes_back_and_never_counts_twice(
    readings: list[tuple[int, str, int]],
) -> None:
    """It is at most what happened, and misses at most what came just before a new beginning."""
    kernel = Kernel()
    tally, epoch = NOTHING, 0
    happened = lost = unread = 0
    for before, event, after in readings:
        kernel.value += before
        if event == "table made again":
            kernel.epoch += 1
            lost += before + unread
            unread = 0
            kernel.value = 0
        elif event == "counter replaced":
            # Seen only by a smaller value: what is hidden below the old one is missed.
            lost += before + unread + min(kernel.value, after)
            unread = 0
            kernel.value = 0
        kernel.value += after
        happened += before + after
        value = None if event == "not read" else kernel.value
        unread = unread + before + after if event == "not read" else 0
        last, tally = (
            tally,
            accumulate(tally, [Count(CLUSTER, "c", value)], reset=kernel.epoch != epoch),
        )
        epoch = kernel.epoch
        total = tally.frontends[CLUSTER]
        assert last.frontends.get(CLUSTER, 0) <= total
        assert total <= happened
        assert total >= happened - lost - unread


TARGETS: dict[Hashable, Target] = {"c": CLUSTER, "n": NODE_PORT, "0": L1, "1": L1, "2": R1}


@given(st.lists(st.dictionaries(st.sampled_from(sorted(map(str, TARGETS))), st.integers(0, 99))))
def test_totals_of_whatever_remains_never_go_back(readings: list[dict[str, int]]) -> None:
    tally = NOTHING
    for reading in readings:
        counts = [Count(TARGETS[name], name, value) for name, value in reading.items()]
        after = accumulate(tally, counts, reset=False)
        for frontend, total in after.frontends.items():
            assert total >= tally.frontends.get(frontend, 0)
        for endpoint, endpoint_total in after.endpoints.items():
            assert endpoint_total >= tally.endpoints.get(endpoint, 0)
        assert {each.target for each in counts} == {*after.frontends, *after.endpoints}
        tally = after


def test_rates() -> None:
    before = Tally({CLUSTER: 7}, {L1: 2})
    after = Tally({CLUSTER: 17, NODE_PORT: 5}, {L1: 2, R1: 9})
    expected = PortRates({CLUSTER: 5.0, NODE_PORT: 0.0}, {L1: 0.0, R1: 0.0})
    window = TrafficWindow(Totals(12.0, 1, {CART: after}), Totals(10.0, 1, {CART: before}))
    assert expected == window.rates(CART)
