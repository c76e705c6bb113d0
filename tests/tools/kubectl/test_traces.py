"""Connections that several nodes see, as rows."""

from datetime import UTC

import msgspec
import pytest
from msgspec.structs import replace

from kubeproxy.tools.kubectl.traces import Rows, seen
from kubeproxy.tools.layout import Style
from kubeproxy.tools.trace.lines import TracedLine

TRACED = TracedLine(
    time="2026-09-01T12:00:00.123Z",
    ip_family="IPv4",
    protocol="TCP",
    service_port="shop/cart:http",
    client="10.64.3.50:33002",
    frontend="cluster-ip",
    destination="10.112.0.21:80",
    endpoint="10.64.3.11:8080",
    node="kestrel",
    on_this_node=True,
    source_rewritten_to=None,
    outcome="answered",
)
NAMES = {"10.64.3.50": "shop/reader", "10.64.3.11": "shop/cart-1"}


@pytest.mark.parametrize(
    ("traced", "expected", "style"),
    [
        (
            TRACED,
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 this node no answered"
            ),
            Style.PLAIN,
        ),
        (
            replace(TRACED, on_this_node=False, source_rewritten_to="192.0.2.1:7"),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 kestrel as 192.0.2.1:7 answered"
            ),
            Style.PLAIN,
        ),
        (
            replace(TRACED, endpoint=None, node="", on_this_node=None, service_port=""),
            (
                "12:00:00.123 heron TCP ? shop/reader:33002 cluster-ip 10.112.0.21:80"
                " not translated - no answered"
            ),
            Style.RED,
        ),
        (
            replace(TRACED, outcome="refused", on_this_node=False),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 kestrel no refused by the endpoint"
            ),
            Style.RED,
        ),
        (
            replace(TRACED, outcome="unanswered", node="", on_this_node=None),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 ? no no answer for 3 s"
            ),
            Style.YELLOW,
        ),
        (
            replace(TRACED, outcome="drop", endpoint="", why="the source is in no range"),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " dropped - - the source is in no range"
            ),
            Style.RED,
        ),
        (
            replace(TRACED, outcome="of-a-later-version"),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 this node no of-a-later-version"
            ),
            Style.PLAIN,
        ),
        (
            replace(TRACED, outcome=""),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 this node no ?"
            ),
            Style.PLAIN,
        ),
        (
            replace(TRACED, failure="refused", times=3),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 cluster-ip 10.112.0.21:80"
                " shop/cart-1:8080 this node - refused (3 times)"
            ),
            Style.YELLOW,
        ),
        (
            replace(TRACED, failure="gone", frontend="", on_this_node=None, node=""),
            (
                "12:00:00.123 heron TCP shop/cart:http shop/reader:33002 - 10.112.0.21:80"
                " shop/cart-1:8080 ? - gone"
            ),
            Style.YELLOW,
        ),
    ],
)
def test_a_row(traced: TracedLine, expected: str, style: Style) -> None:
    rows = Rows(NAMES, UTC)
    rows.header()
    (row,) = rows.rows(traced, "heron")
    assert (" ".join(row.text.split()), row.style) == (expected, style)


def test_columns_stay_below_their_titles() -> None:
    rows = Rows({}, UTC)
    header = rows.header().text
    (row,) = rows.rows(TRACED, "heron")
    assert row.text.index("heron") == header.index("SEEN BY")


@pytest.mark.parametrize("width", [80, 100, 130, 200])
def test_rows_fit_the_terminal(width: int) -> None:
    rows = Rows(NAMES, UTC, width)
    shown = [rows.header(), *rows.rows(TRACED, "heron"), *rows.rows(TRACED, "merlin")]
    assert max(len(each.text) for each in shown) <= width
    assert "ANSWER" in shown[-3].text
    assert shown[-1].text.endswith("answered")


def test_for_programs() -> None:
    found = msgspec.json.decode(seen(TRACED, "heron"))
    assert (found["seenBy"], found["servicePort"]) == ("heron", "shop/cart:http")
