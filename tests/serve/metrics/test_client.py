import pytest

from kubeproxy.cluster.client.observed import Attempt, Exchange, ignore
from kubeproxy.serve.metrics.client import ClientMetrics
from serve.metrics.exposed import shown

HOST = "10.0.0.1:6443"
LIST = Exchange("GET", HOST, 0.2, 0, 5000)


def values(*seen: Attempt | Exchange) -> dict[str, str]:
    metrics = ClientMetrics()
    for each in seen:
        metrics.take(each)
    found = shown(*metrics.families()).items()
    return {
        series.removeprefix("rest_client_").replace(f'host="{HOST}"', "H"): value
        for series, value in found
        if "_bucket" not in series
    }


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(
            Attempt("GET", HOST, "200", 0.5, False),
            {
                'rate_limiter_duration_seconds_count{H,verb="GET"}': "1",
                'rate_limiter_duration_seconds_sum{H,verb="GET"}': "0.5",
                'requests_total{code="200",H,method="GET"}': "1",
            },
            id="a-list",
        ),
        pytest.param(
            Attempt("GET", HOST, "<error>", 0.0, True),
            {'requests_total{code="<error>",H,method="GET"}': "1"},
            id="a-watch-is-counted-only",
        ),
        pytest.param(
            Attempt("GET", HOST, "200", 0.0, True, "429"),
            {
                'requests_total{code="200",H,method="GET"}': "1",
                'request_retries_total{code="429",H,verb="GET"}': "1",
            },
            id="a-retry",
        ),
        pytest.param(
            LIST,
            {
                'request_duration_seconds_count{H,verb="GET"}': "1",
                'request_duration_seconds_sum{H,verb="GET"}': "0.2",
                'request_size_bytes_count{H,verb="GET"}': "1",
                'request_size_bytes_sum{H,verb="GET"}': "0",
                'response_size_bytes_count{H,verb="GET"}': "1",
                'response_size_bytes_sum{H,verb="GET"}': "5000",
            },
            id="an-answer",
        ),
        pytest.param(
            Exchange("POST", HOST, 30.0, 7, None),
            {
                'request_duration_seconds_count{H,verb="POST"}': "1",
                'request_duration_seconds_sum{H,verb="POST"}': "30",
                'request_size_bytes_count{H,verb="POST"}': "1",
                'request_size_bytes_sum{H,verb="POST"}': "7",
            },
            id="no-answer",
        ),
    ],
)
def test_what_the_client_does_is_counted(
    seen: Attempt | Exchange, expected: dict[str, str]
) -> None:
    assert expected == values(seen)


def test_bounds_are_upstreams() -> None:
    metrics = ClientMetrics()
    metrics.take(LIST)
    bounds: dict[str, list[str]] = {}
    for series in shown(*metrics.families()):
        name, _, bound = series.partition("le=")
        if bound:
            bounds.setdefault(name.partition("_bucket")[0], []).append(bound.strip('"}'))
    seconds = "0.005 0.025 0.1 0.25 0.5 1 2 4 8 15 30 60 +Inf"
    size = "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 4.194304e+06 1.6777216e+07 +Inf"
    assert {name: " ".join(found) for name, found in bounds.items()} == {
        "rest_client_request_duration_seconds": seconds,
        "rest_client_request_size_bytes": size,
        "rest_client_response_size_bytes": size,
    }


def test_nothing_is_counted_by_default() -> None:
    ignore(LIST)
