from collections.abc import Sequence
from datetime import UTC, timedelta, timezone

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.engine.observer import (
    LoopStarted,
    ObjectReceived,
    Observation,
    SyncEnded,
    SyncRequested,
    SyncStarted,
)
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.health.state import (
    Families,
    FamilyHealth,
    Instant,
    health_answer,
    observe,
    service_health,
)
from kubeproxy.serve.http.answer import Answer
from kubeproxy.table.diff import NO_CHANGES
from kubeproxy.table.entries import ServiceName

V4 = Family.IPV4
TIMEOUT = 60.0
STARTED = LoopStarted(V4)
WANTED = SyncRequested(V4, 1)
BEGAN = SyncStarted(V4)


def ended(outcome: Outcome, family: Family = V4) -> SyncEnded:
    return SyncEnded(family, outcome, full=False, seconds=0.1, changes=NO_CHANGES, report=None)


OK, PARTLY, FAILED = map(ended, Outcome)


def at(seconds: float) -> Instant:
    return Instant(seconds, int(seconds * 1e9))


def after(observations: Sequence[tuple[float, Observation]]) -> Families:
    families: Families = {}
    for seconds, observation in observations:
        families = observe(families, observation, at(seconds))
    return families


def healthy(families: Families, now: float) -> bool:
    return families[V4].is_healthy(now, TIMEOUT)


@pytest.mark.parametrize(
    ("observations", "unhealthy_at"),
    [
        pytest.param([], None, id="an-idle-family-is-healthy-for-ever"),
        pytest.param([(10, WANTED)], 70, id="a-sync-that-never-begins"),
        pytest.param([(10, WANTED), (11, BEGAN)], 70, id="a-sync-that-never-ends"),
        pytest.param([(10, WANTED), (20, WANTED)], 70, id="the-oldest-request-counts"),
        pytest.param([(10, WANTED), (11, BEGAN), (12, OK)], None, id="a-sync-that-went-well"),
        pytest.param(
            [(10, WANTED), (11, BEGAN), (12, PARTLY)],
            None,
            id="one-bad-service-does-not-take-the-node-out",
        ),
        pytest.param(
            [(10, WANTED), (11, BEGAN), (12, FAILED), (42, BEGAN), (43, FAILED)],
            70,
            id="failures-count-from-the-request-not-from-the-try",
        ),
        pytest.param(
            [(10, WANTED), (11, BEGAN), (12, FAILED), (72, BEGAN), (73, OK)],
            None,
            id="the-first-good-sync-heals",
        ),
        pytest.param(
            [(10, WANTED), (11, BEGAN), (12, WANTED), (13, OK)],
            72,
            id="what-is-wanted-while-a-sync-runs-is-still-wanted-after-it",
        ),
        pytest.param(
            [(10, WANTED), (11, BEGAN), (12, WANTED), (13, FAILED), (14, BEGAN)],
            70,
            id="after-a-failure-the-older-request-counts",
        ),
        pytest.param([(10, BEGAN), (11, FAILED)], None, id="a-full-sync-that-was-not-requested"),
    ],
)
def test_when_a_family_is_unhealthy(
    observations: list[tuple[float, Observation]], unhealthy_at: float | None
) -> None:
    families = after([(1, STARTED), *observations])
    if unhealthy_at is None:
        assert healthy(families, 1e9)
    else:
        assert healthy(families, unhealthy_at - 0.001)
        assert not healthy(families, unhealthy_at)


@pytest.mark.parametrize(
    ("observations", "updated"),
    [
        pytest.param([], 1, id="the-start-of-the-loop"),
        pytest.param([(10, WANTED), (11, BEGAN), (12, OK)], 12, id="a-good-sync"),
        pytest.param([(10, WANTED), (11, BEGAN), (12, PARTLY)], 12, id="nearly-good"),
        pytest.param([(10, WANTED), (11, BEGAN), (12, FAILED)], 1, id="not-a-failed-one"),
    ],
)
def test_when_a_family_was_last_updated(
    observations: list[tuple[float, Observation]], updated: float
) -> None:
    assert after([(1, STARTED), *observations])[V4].updated == at(updated)


def test_a_family_is_known_from_the_start_of_its_loop_and_apart_from_the_other() -> None:
    received = ObjectReceived(Kind.SERVICE, ObjectKey("shop", "cart"), ())
    assert after([(1, received)]) == {}
    families = after([(1, STARTED), (2, LoopStarted(Family.IPV6)), (3, WANTED)])
    assert {
        V4: FamilyHealth(at(1), wanted=3),
        Family.IPV6: FamilyHealth(at(2)),
    } == families


def test_a_first_sync_that_is_wanted_before_its_loop_starts_is_waited_for() -> None:
    known = {V4: FamilyHealth(at(1), wanted=1)}
    assert known == after([(1, STARTED), (1, WANTED)])
    assert known == after([(1, WANTED), (1, STARTED)])
    failing = after([(1, WANTED), (1, STARTED), (2, BEGAN), (3, FAILED), (4, BEGAN), (5, FAILED)])
    assert healthy(failing, 60.999)
    assert not healthy(failing, 61)


# --- answers ----------------------------------------------------------------------------------

HEADERS = (("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff"))
START = 1794788615_000000000  # 2026-11-16T00:23:35Z
NOW = Instant(100.0, START + 60_558_305_731)
FIRST = Instant(40.0, START)
LATER = Instant(70.0, START + 30_500_000_000)
LATE = FamilyHealth(FIRST, wanted=40.0)


def body(text: str) -> bytes:
    """The text without the breaks that make it readable here."""
    return text.replace("\n", "").encode()


@pytest.mark.parametrize(
    ("families", "eligible", "expected"),
    [
        pytest.param(
            {},
            True,
            Answer(
                200,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:24:35.558305731Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z",\n'
                    '"nodeEligible":true,"healthy":true}'
                ),
            ),
            id="nothing-has-started",
        ),
        pytest.param(
            {},
            False,
            Answer(
                503,
                HEADERS,
                body(
                    '{"lastUpdated":"0001-01-01T00:00:00Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z",\n'
                    '"nodeEligible":false,"healthy":true}'
                ),
            ),
            id="nothing-has-started-and-the-node-is-not-known",
        ),
        pytest.param(
            {Family.IPV6: FamilyHealth(FIRST), Family.IPV4: FamilyHealth(LATER)},
            True,
            Answer(
                200,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:24:35.558305731Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z",\n'
                    '"nodeEligible":true,"healthy":true,"status":{\n'
                    '"IPv4":{"lastUpdated":"2026-11-16T00:24:05.5Z","healthy":true},\n'
                    '"IPv6":{"lastUpdated":"2026-11-16T00:23:35Z","healthy":true}}}'
                ),
            ),
            id="healthy",
        ),
        pytest.param(
            {Family.IPV4: FamilyHealth(LATER), Family.IPV6: LATE},
            True,
            Answer(
                503,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:24:05.5Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z",\n'
                    '"nodeEligible":true,"healthy":false,"status":{\n'
                    '"IPv4":{"lastUpdated":"2026-11-16T00:24:05.5Z","healthy":true},\n'
                    '"IPv6":{"lastUpdated":"2026-11-16T00:23:35Z","healthy":false}}}'
                ),
            ),
            id="one-family-fails",
        ),
        pytest.param(
            {Family.IPV4: FamilyHealth(LATER)},
            False,
            Answer(
                503,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:24:05.5Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z",\n'
                    '"nodeEligible":false,"healthy":true,"status":{\n'
                    '"IPv4":{"lastUpdated":"2026-11-16T00:24:05.5Z","healthy":true}}}'
                ),
            ),
            id="the-node-is-about-to-go",
        ),
    ],
)
def test_healthz(families: Families, eligible: bool, expected: Answer) -> None:
    assert expected == health_answer(families, NOW, UTC, 60.0, eligible=eligible)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        pytest.param(
            FamilyHealth(LATER),
            Answer(
                200,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:24:35.558305731Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z","healthy":true,"status":{\n'
                    '"IPv4":{"lastUpdated":"2026-11-16T00:24:05.5Z","healthy":true}}}'
                ),
            ),
            id="alive",
        ),
        pytest.param(
            LATE,
            Answer(
                503,
                HEADERS,
                body(
                    '{"lastUpdated":"2026-11-16T00:23:35Z",\n'
                    '"currentTime":"2026-11-16T00:24:35.558305731Z","healthy":false,"status":{\n'
                    '"IPv4":{"lastUpdated":"2026-11-16T00:23:35Z","healthy":false}}}'
                ),
            ),
            id="stuck",
        ),
    ],
)
def test_livez(family: FamilyHealth, expected: Answer) -> None:
    families = {Family.IPV4: family}
    assert expected == health_answer(families, NOW, UTC, 60.0, eligible=None)


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        pytest.param(3600, b'"currentTime":"2026-11-16T01:24:35.558305731+01:00"', id="east"),
        pytest.param(-12600, b'"currentTime":"2026-11-15T20:54:35.558305731-03:30"', id="west"),
    ],
)
def test_times_are_local(ahead: int, expected: bytes) -> None:
    answer = health_answer({}, NOW, timezone(timedelta(seconds=ahead)), 60.0, eligible=None).body
    assert isinstance(answer, bytes)
    assert expected in answer


@pytest.mark.parametrize(
    ("count", "healthy", "status"),
    [
        pytest.param(2, True, 200, id="endpoints-and-health"),
        pytest.param(0, True, 503, id="no-endpoints"),
        pytest.param(2, False, 503, id="no-health"),
    ],
)
def test_the_answer_of_a_service(count: int, healthy: bool, status: int) -> None:
    answer = service_health(ServiceName("demo", "lb1"), count, healthy=healthy)
    text = (
        '{\n\t"service": {\n\t\t"namespace": "demo",\n\t\t"name": "lb1"\n\t},\n'
        f'\t"localEndpoints": {count},\n\t"serviceProxyHealthy": {str(healthy).lower()}\n}}'
    )
    headers = (*HEADERS, ("X-Load-Balancing-Endpoint-Weight", str(count)))
    assert Answer(status, headers, text.encode()) == answer
