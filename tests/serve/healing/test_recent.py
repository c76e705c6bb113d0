"""The latest failures, and how many there were of late."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.serve.healing.recent import MOST, OF_LATE, Recent
from kubeproxy.table.entries import FrontendKey, ServicePortName

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
START = 1000.0
DIALLED = FrontendKey("10.112.0.21", Protocol.TCP, 80)
FAILURE = Failure(Reason.REFUSED, "10.64.3.50", DIALLED, Endpoint("10.64.3.11", 8080), 2)


def filled(count: int) -> Recent:
    recent = Recent()
    for number in range(count):
        recent.add(Family.IPV4, CART, FAILURE, START + number)
    return recent


@pytest.mark.parametrize(
    ("kept", "after", "expected"),
    [
        pytest.param(0, 0, [], id="none"),
        pytest.param(3, 0, [1, 2, 3], id="all"),
        pytest.param(3, 1, [2, 3], id="those-after"),
        pytest.param(3, 3, [], id="no-new-ones"),
        pytest.param(3, 9, [], id="a-number-that-is-not-there-yet"),
        pytest.param(MOST + 2, MOST, [MOST + 1, MOST + 2], id="after-those-that-are-gone"),
    ],
)
def test_those_after_a_number(kept: int, after: int, expected: list[int]) -> None:
    recent = filled(kept)
    assert [each.number for each in recent.after(after)] == expected
    assert recent.last == kept


def test_only_the_latest_are_kept() -> None:
    found = list(filled(MOST + 5).after(0))
    assert (len(found), found[0].number, found[-1].number) == (MOST, 6, MOST + 5)
    assert found[0] == (6, START + 5, Family.IPV4, CART, FAILURE)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(1, 4, id="in-one-moment"),
        pytest.param(OF_LATE - 1, 4, id="still"),
        pytest.param(OF_LATE + 5, 0, id="not-any-more"),
    ],
)
def test_how_many_there_were_of_late(seconds: float, expected: int) -> None:
    recent = filled(2)
    assert recent.of_late(Family.IPV4, START + seconds) == expected
    assert recent.of_late(Family.IPV6, START) == 0


def test_a_long_series_counts_in_its_last_minute() -> None:
    recent = filled(200)
    assert recent.of_late(Family.IPV4, START + 199) == 2 * 60
