"""The token bucket."""

import pytest

from kubeproxy.cluster.client.http_client import RateLimit, TokenBucket


@pytest.mark.parametrize(
    ("qps", "burst", "times", "waits"),
    [
        pytest.param(5, 2, [0, 0, 0, 0], [0, 0, 0.2, 0.4], id="a-burst-then-a-queue"),
        pytest.param(5, 2, [0, 0, 0.2, 0.4], [0, 0, 0, 0], id="the-steady-rate-never-waits"),
        pytest.param(
            5, 2, [0, 0, 100, 100, 100], [0, 0, 0, 0, 0.2], id="saves-no-more-than-burst"
        ),
        pytest.param(5, 2, [0, 0, 0, 0.1], [0, 0, 0.2, 0.3], id="clients-queue-behind-each-other"),
        pytest.param(5, 1, [1, 0.5, 1], [0, 0.2, 0.4], id="a-clock-that-steps-back-adds-nothing"),
        pytest.param(-1, 1, [0, 0, 0], [0, 0, 0], id="a-negative-rate-is-no-limit"),
        pytest.param(0, 0, [0, 0, 0], [0, 0, 0], id="no-rate-is-no-limit"),
    ],
)
def test_how_long_each_client_waits(
    qps: float, burst: int, times: list[float], waits: list[float]
) -> None:
    bucket = TokenBucket(RateLimit(qps, burst))
    assert waits == pytest.approx([bucket.take(now) for now in times])
