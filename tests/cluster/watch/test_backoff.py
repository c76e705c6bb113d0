"""How long the waits between requests are."""

import pytest

from kubeproxy.cluster.watch.backoff import Backoff


@pytest.mark.parametrize(
    ("chance", "expected"),
    [
        pytest.param(0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], id="shortest"),
        pytest.param(0.5, [1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0], id="middling"),
    ],
)
def test_delays_double_up_to_a_limit(chance: float, expected: list[float]) -> None:
    backoff = Backoff()
    assert expected == pytest.approx([backoff.delay(0.0, chance) for _ in expected])


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(121.0, 0.8, id="two-minutes-later-it-is-short-again"),
        pytest.param(119.5, 1.6, id="before-that-it-is-not"),
    ],
)
def test_a_backoff_is_reset_after_two_quiet_minutes(later: float, expected: float) -> None:
    backoff = Backoff()
    delay = backoff.delay(0.0, 0.0)
    assert expected == pytest.approx(backoff.delay(delay + later, 0.0))
