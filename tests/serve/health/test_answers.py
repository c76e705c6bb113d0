import pytest

from kubeproxy.base.inet import Family
from kubeproxy.serve.health.answers import Clock, health_answer, service_health
from kubeproxy.serve.health.state import Families, FamilyHealth, Instant
from kubeproxy.serve.http.answer import Answer
from kubeproxy.table.entries import ServiceName

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
    assert expected == health_answer(families, Clock(NOW), 60.0, eligible=eligible)


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
    assert expected == health_answer(families, Clock(NOW), 60.0, eligible=None)


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        pytest.param(3600, b'"currentTime":"2026-11-16T01:24:35.558305731+01:00"', id="east"),
        pytest.param(-12600, b'"currentTime":"2026-11-15T20:54:35.558305731-03:30"', id="west"),
    ],
)
def test_times_are_local(ahead: int, expected: bytes) -> None:
    answer = health_answer({}, Clock(NOW, ahead), 60.0, eligible=None).body
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
