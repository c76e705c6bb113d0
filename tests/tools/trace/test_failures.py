"""Connections that endpoints failed, as a trace shows them."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from kubeproxy.serve.status.wire import FailedConnections
from kubeproxy.tools.layout import Display
from kubeproxy.tools.trace.connections import Bounds, Failed, Shown, Trace, Traced, parse_filter
from kubeproxy.tools.trace.failures import failed_of, summary
from kubeproxy.tools.trace.lines import Columns, json_line
from tools.trace.shop import KNOWN, event

AT = datetime(2026, 3, 1, 13, 4, 5, 999000, tzinfo=timezone(timedelta(hours=2)))
REFUSED = FailedConnections(
    number=7,
    time="2026-03-01T11:04:05.678Z",
    service_port="shop/web:http",
    protocol="TCP",
    ip_family="IPv4",
    client="10.64.3.50",
    destination="10.112.0.21:80",
    endpoint="10.64.3.11:8080",
    reason="refused",
    times=1,
)
SILENT = replace(REFUSED, endpoint="", reason="unanswered", destination="198.51.100.10:31080")
GONE = replace(REFUSED, endpoint="10.65.7.29:8080", reason="gone", times=1200)


def failed(reported: FailedConnections) -> Failed:
    found = failed_of(KNOWN, parse_filter((), ()), reported)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("reported", "clients", "endpoints", "expected"),
    [
        pytest.param(REFUSED, [], [], True, id="of-the-service"),
        pytest.param(SILENT, [], [], True, id="of-its-node-port"),
        pytest.param(
            replace(REFUSED, destination="10.112.0.22:80"), [], [], False, id="of-another"
        ),
        pytest.param(replace(REFUSED, protocol="UDP"), [], [], False, id="another-protocol"),
        pytest.param(
            replace(REFUSED, destination="[fd12::21]:80", client="fd40::50"), [], [], True, id="v6"
        ),
        pytest.param(REFUSED, ["10.64.3.0/24"], [], True, id="the-client"),
        pytest.param(REFUSED, ["192.0.2.0/24"], [], False, id="another-client"),
        pytest.param(REFUSED, [], ["10.64.3.11"], True, id="the-endpoint"),
        pytest.param(REFUSED, [], ["10.64.3.11:8080"], True, id="the-endpoint-with-its-port"),
        pytest.param(REFUSED, [], ["10.64.3.11:81"], False, id="another-endpoint"),
        pytest.param(SILENT, [], ["10.64.3.11"], False, id="an-endpoint-that-is-unknown"),
    ],
)
def test_which_are_wanted(
    reported: FailedConnections, clients: list[str], endpoints: list[str], expected: bool
) -> None:
    found = failed_of(KNOWN, parse_filter(clients, endpoints), reported)
    assert expected == (found is not None)


PEOPLE = """\
TIME          PROTO  CLIENT                 FRONTEND       DIALLED                ENDPOINT               NODE       MASQUERADED               ANSWER
13:04:05.678  TCP    10.64.3.50             cluster-ip     10.112.0.21:80         10.64.3.11:8080        this node  -                         refused, retried
13:04:05.678  TCP    10.64.3.50             node-port      198.51.100.10:31080    ?                      ?          -                         no answer, retried
13:04:05.678  TCP    10.64.3.50             cluster-ip     10.112.0.21:80         10.65.7.29:8080        ?          -                         reset: endpoint is gone (1,200 times)
"""  # noqa: E501  # that is how wide it is


def test_lines_for_people() -> None:
    columns = Columns({"shop/web:http"}, Display())
    header = columns.header()
    lines = [line for each in (REFUSED, SILENT, GONE) for line in columns.lines(failed(each), AT)]
    assert PEOPLE.splitlines() == [header, *lines]
    coloured = Columns({""}, Display(colours=True)).lines(failed(GONE), AT)
    assert list(coloured)[-1].startswith("\x1b[33m13:04")


def test_a_reason_of_a_later_version() -> None:
    assert failed(replace(REFUSED, reason="lost")).what == "lost"


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param(
            REFUSED,
            {
                "time": "2026-03-01T11:04:05.678Z",
                "ipFamily": "IPv4",
                "protocol": "TCP",
                "servicePort": "shop/web:http",
                "client": "10.64.3.50",
                "frontend": "cluster-ip",
                "destination": "10.112.0.21:80",
                "endpoint": "10.64.3.11:8080",
                "node": "kestrel",
                "onThisNode": True,
                "sourceRewrittenTo": None,
                "failure": "refused",
                "times": 1,
            },
            id="refused",
        ),
        pytest.param(SILENT, {"endpoint": "", "node": "", "onThisNode": None}, id="unknown"),
        pytest.param(GONE, {"failure": "gone", "times": 1200}, id="many-times"),
    ],
)
def test_lines_for_programs(reported: FailedConnections, expected: dict[str, object]) -> None:
    line = json.loads(json_line(failed(reported), AT))
    assert expected == {key: value for key, value in line.items() if key in expected}


def test_failures_and_connections_share_the_rate() -> None:
    shown: list[Shown] = []
    trace = Trace(KNOWN, Bounds(rate=2), shown.append)
    trace.take(event("10.64.3.50:40000", "10.112.0.21:80", "10.64.3.11:8080"))
    trace.take_failed(failed(REFUSED))
    trace.take_failed(failed(REFUSED))
    assert [type(each) for each in shown] == [Traced, Failed]
    assert (trace.seen, trace.failures.total(), trace.failures_shown) == (1, 2, 1)
    assert trace.begin_second() == 1


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            [REFUSED, SILENT, GONE, REFUSED],
            [
                "1,203 failures, 1,203 shown",
                "  10.65.7.29:8080  1,200  reset: endpoint is gone",
                "  10.64.3.11:8080  2  refused, retried",
                "  ?                1  no answer, retried",
            ],
            id="the-worst-first",
        ),
        pytest.param(
            [replace(REFUSED, endpoint=f"10.64.3.{last}:80") for last in range(10, 32)],
            [
                "22 failures, 22 shown",
                *(f"  10.64.3.{last}:80  1  refused, retried" for last in range(10, 30)),
                "  and 2 more endpoints",
            ],
            id="of-many-some",
        ),
    ],
)
def test_the_summary(reported: Sequence[FailedConnections], expected: list[str]) -> None:
    trace = Trace(KNOWN, Bounds(), lambda _: None)
    for each in reported:
        trace.take_failed(failed(each))
    assert expected == list(summary(trace.failures, trace.failures_shown))


def test_a_summary_of_nothing() -> None:
    assert list(summary(Counter(), 0)) == []
