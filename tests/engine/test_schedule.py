import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.engine.schedule import (
    Outcome,
    Progress,
    Schedule,
    begin,
    finish,
    is_full_due,
    next_sync,
    request,
    retry_delay,
)

SCHEDULE = Schedule(min_period=1.0, retry_period=30.0, full_period=3600.0)
DONE = Progress(ended=100.0, full_ended=90.0, stale=False)


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        pytest.param(Progress(), None, id="nothing-yet"),
        pytest.param(Progress(requested=True), 0.0, id="the-first-request-runs-at-once"),
        pytest.param(DONE, 3690.0, id="at-rest-until-the-next-full-sync"),
        pytest.param(request(DONE), 101.0, id="not-before-the-minimum-period"),
        pytest.param(
            Progress(ended=100.0, failures=1), 101.0, id="a-first-sync-that-failed-is-tried-again"
        ),
        pytest.param(
            Progress(ended=100.0, full_ended=90.0, failures=4), 104.0, id="the-fourth-try-waits"
        ),
        pytest.param(
            Progress(ended=100.0, full_ended=90.0, failures=60), 130.0, id="waits-are-bounded"
        ),
        pytest.param(
            Progress(requested=True, ended=100.0, failures=60),
            101.0,
            id="a-request-comes-before-a-retry",
        ),
        pytest.param(Progress(ended=100.0), None, id="never-full-and-nothing-wanted"),
    ],
)
def test_when_the_next_sync_is_due(progress: Progress, expected: float | None) -> None:
    assert expected == next_sync(SCHEDULE, progress)


@pytest.mark.parametrize(
    ("progress", "now", "expected"),
    [
        pytest.param(Progress(), 0.0, True, id="the-first"),
        pytest.param(DONE, 200.0, False, id="a-change"),
        pytest.param(DONE, 3690.0, True, id="an-hour-later"),
        pytest.param(
            finish(DONE, 200.0, Outcome.FAILED, full=False), 201.0, True, id="after-a-failure"
        ),
        pytest.param(
            finish(DONE, 200.0, Outcome.PARTLY, full=False),
            201.0,
            False,
            id="not-because-one-service-failed",
        ),
    ],
)
def test_when_a_sync_is_full(progress: Progress, now: float, expected: bool) -> None:
    assert expected == is_full_due(SCHEDULE, progress, now)


def test_a_request_during_a_sync_stays_open() -> None:
    running = begin(request(DONE))
    assert not running.requested
    ended = finish(request(running), 200.0, Outcome.OK, full=False)
    assert ended.requested
    assert next_sync(SCHEDULE, ended) == 201.0


def test_success_forgets_failures() -> None:
    failed = finish(DONE, 200.0, Outcome.FAILED, full=True)
    assert failed.full_ended == 90.0
    repaired = finish(failed, 210.0, Outcome.OK, full=True)
    assert repaired == Progress(ended=210.0, full_ended=210.0, stale=False)


@given(st.integers(1, 10_000), st.floats(0.5, 3600))
def test_retries_never_come_closer_and_never_wait_too_long(
    failures: int, retry_period: float
) -> None:
    schedule = Schedule(0.0, retry_period, 3600.0)
    delay = retry_delay(schedule, failures)
    assert 0 < delay <= retry_period
    assert delay <= retry_delay(schedule, failures + 1)
