import json
from datetime import datetime, timedelta, timezone

import pytest
from msgspec.structs import replace

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink.conntrack import connection_in
from kubeproxy.tools.layout import Display
from kubeproxy.tools.trace.connections import Traced, describe, index, watched_address
from kubeproxy.tools.trace.lines import Columns, json_line, json_lines
from kubeproxy.tools.trace.outcomes import Outcome
from tools.trace.shop import HTTP, KNOWN, WATCHED, event

WEB = "shop/web:http"
AT = datetime(2026, 3, 1, 13, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))


PIPE = Display()


def traced(client: str, to: str, responder: str, seen: str = "", frontend: int = 0) -> Traced:
    connection = connection_in(event(client, to, responder, seen))
    assert connection is not None
    return describe(KNOWN, (WATCHED[0], WATCHED[0].port.frontends[frontend]), connection)


FROM_POD = replace(
    traced("10.64.3.50:40000", "10.112.0.21:80", "10.64.3.11:8080"), outcome=Outcome.ANSWERED
)
MASQUERADED = traced(
    "192.0.2.50:40000", "198.51.100.10:31080", "10.65.7.21:8080", "198.51.100.10:53211", 3
)
UNKNOWN = traced("192.0.2.50:40000", "198.51.100.10:31080", "10.65.7.29:8080", frontend=3)
UNTOUCHED = traced("10.64.3.50:40000", "10.112.0.21:80", "10.112.0.21:80")


PEOPLE = """\
TIME          PROTO  CLIENT                 FRONTEND       DIALLED                ENDPOINT               NODE       MASQUERADED               ANSWER
13:04:05.678  TCP    10.64.3.50:40000       cluster-ip     10.112.0.21:80         10.64.3.11:8080        this node  no                        answered
13:04:05.678  TCP    192.0.2.50:40000       node-port      198.51.100.10:31080    10.65.7.21:8080        heron      as 198.51.100.10:53211    no answer yet
13:04:05.678  TCP    192.0.2.50:40000       node-port      198.51.100.10:31080    10.65.7.29:8080        ?          no                        no answer yet
13:04:05.678  TCP    10.64.3.50:40000       cluster-ip     10.112.0.21:80         not translated         -          no                        no answer yet
"""  # noqa: E501  # that is how wide it is


def shown(columns: Columns, *connections: Traced) -> list[str]:
    return [line for each in connections for line in columns.lines(each, AT)]


def test_lines_for_people() -> None:
    columns = Columns({WEB}, PIPE)
    connections = (FROM_POD, MASQUERADED, UNKNOWN, UNTOUCHED)
    lines = [columns.header(), *shown(columns, *connections)]
    assert PEOPLE.splitlines() == lines


def test_columns_grow_with_what_stands_in_them() -> None:
    columns = Columns({WEB}, PIPE)
    wide = "[2001:db8:ff:64:1111:2222:3333:4444]:40000"
    six = Traced(
        WATCHED[1],
        WATCHED[1].port.frontends[0],
        "IPv6",
        wide,
        FROM_POD.destination,
        FROM_POD.endpoint,
        FROM_POD.detail,
        FROM_POD.seen,
        FROM_POD.connection,
    )
    columns.header()
    before, line, after = shown(columns, FROM_POD, six, FROM_POD)
    assert wide in line
    assert before.index("cluster-ip") < line.index("cluster-ip") == after.index("cluster-ip")


def test_several_service_ports_are_named() -> None:
    columns = Columns({WEB, ""}, PIPE)
    known = index([watched_address("10.112.0.21", 80, Protocol.TCP)], ())
    connection = connection_in(event("10.64.3.50:40000", "10.112.0.21:80", "10.64.3.11:8080"))
    assert connection is not None
    nameless = describe(known, next(iter(known.places.values())), connection)
    header, line = columns.header(), *shown(columns, FROM_POD)
    assert header.index("CLIENT") == line.index("10.64.3.50") == header.index("SERVICE") + 15
    assert line.split()[2:4] == [WEB, "10.64.3.50:40000"]
    assert shown(columns, nameless)[0].split()[2:5] == ["?", "10.64.3.50:40000", "-"]


@pytest.mark.parametrize(
    ("traced", "start"),
    [
        (FROM_POD, "13:04"),
        (UNTOUCHED, "\x1b[31m13:04"),
        (replace(FROM_POD, outcome=Outcome.REFUSED), "\x1b[31m13:04"),
        (replace(FROM_POD, outcome=Outcome.UNANSWERED), "\x1b[33m13:04"),
    ],
    ids=["answered", "not-translated", "refused", "unanswered"],
)
def test_colours(traced: Traced, start: str) -> None:
    columns = Columns({WEB}, Display(colours=True))
    assert columns.header().startswith("\x1b[1mTIME")
    assert shown(columns, traced)[0].startswith(start)


@pytest.mark.parametrize(
    ("traced", "expected"),
    [
        pytest.param(
            FROM_POD,
            {
                "time": "2026-03-01T11:04:05.678Z",
                "ipFamily": "IPv4",
                "protocol": "TCP",
                "servicePort": "shop/web:http",
                "client": "10.64.3.50:40000",
                "frontend": "cluster-ip",
                "destination": "10.112.0.21:80",
                "endpoint": "10.64.3.11:8080",
                "node": "kestrel",
                "onThisNode": True,
                "sourceRewrittenTo": None,
                "failure": "",
                "times": 1,
                "outcome": "answered",
            },
            id="all-of-it",
        ),
        pytest.param(
            MASQUERADED,
            {"node": "heron", "onThisNode": False, "sourceRewrittenTo": "198.51.100.10:53211"},
            id="masqueraded",
        ),
        pytest.param(UNKNOWN, {"node": "", "onThisNode": None}, id="an-unknown-endpoint"),
        pytest.param(
            traced("[fd40::50]:40000", "[2001:db8:aa::10]:31080", "[fd40::11]:8080", frontend=3),
            {"ipFamily": "IPv6", "frontend": "node-port", "node": "kestrel"},
            id="a-node-port-that-both-families-have",
        ),
        pytest.param(
            UNTOUCHED, {"endpoint": None, "node": "", "onThisNode": None}, id="not-translated"
        ),
    ],
)
def test_lines_for_programs(traced: Traced, expected: dict[str, object]) -> None:
    (line,) = json_lines(traced, AT)
    assert "\n" not in line
    assert expected == {key: value for key, value in json.loads(line).items() if key in expected}


def test_a_name_does_nothing_to_the_terminal() -> None:
    detail = replace(HTTP.endpoints[1], node="\x1b[2Jheron")
    renamed = replace(FROM_POD, detail=detail)
    assert "\ufffd[2Jheron" in shown(Columns({WEB}, PIPE), renamed)[-1]
    assert "\\u001b[2Jheron" in json_line(renamed, AT)


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("names", [{WEB}, {WEB, "shop/an-especially-long-name-of-a-service:http"}])
def test_rows_fit_the_terminal(width: int, names: set[str]) -> None:
    columns = Columns(names, Display(width))
    lines = [columns.header(), *shown(columns, FROM_POD, MASQUERADED, UNKNOWN, UNTOUCHED)]
    assert max(map(len, lines)) <= width
    assert len(lines[-1].split()) >= 4
    assert "not translated" in lines[-1] or width == 60


def test_in_a_narrow_terminal_columns_go_and_ends_stay_whole() -> None:
    columns = Columns({WEB}, Display(80))
    header, row = [columns.header(), *shown(columns, FROM_POD)]
    assert header.split() == ["TIME", "CLIENT", "DIALLED", "ENDPOINT", "ANSWER"]
    assert row.split()[1:] == ["10.64.3.50:40000", "10.112.0.21:80", "10.64.3.11:8080", "answered"]


def test_the_header_comes_again_when_columns_go() -> None:
    columns = Columns({WEB}, Display(79))
    first = columns.header()
    lines = shown(columns, FROM_POD, MASQUERADED, MASQUERADED)
    (again,) = [line for line in lines if line.endswith("ANSWER")]
    assert ("TIME" in first, "TIME" in again) == (True, False)
    assert lines[-1] == "192.0.2.50:40000  198.51.100.10:31080  10.65.7.21:8080  no answer yet"
