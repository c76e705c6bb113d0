"""`kube-proxy services` in terminals of several widths, and while things change."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, always, in_turn, serving
from kubeproxy.serve.status.wire import ServiceSummary
from terminals import Terminal, in_terminal, plain
from tools import reported

LIST = "/status/services"
STEM = "payments-reconciliation-of-the-day"
LONG = [
    replace(reported.CART, namespace="team-with-a-name", service=f"{STEM}-{each}-canary")
    for each in ("before", "behind")
]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {LIST: always(reported.services(*LONG, reported.DNS))}
    with serving(FakeDaemon(pages), tmp_path / "socket") as daemon:
        yield daemon


def command(daemon: FakeDaemon, *flags: str) -> list[str]:
    program = [sys.executable, "-m", "kubeproxy", "services", "--socket", daemon.socket]
    return [*program, "--no-rates", *flags]


def shown(daemon: FakeDaemon, columns: int, *flags: str) -> list[list[str]]:
    """The words of each line."""
    with in_terminal(command(daemon, *flags), columns=columns) as terminal:
        assert terminal.wait() == 0
        return [line.split() for line in plain(terminal.said).splitlines()]


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (200, "NAMESPACE/NAME ADDRESSES PORTS ENDPOINTS CONNECTIONS PER SECOND"),
        (120, "NAMESPACE/NAME ADDRESSES ENDPOINTS CONNECTIONS PER SECOND"),
        (105, "NAMESPACE/NAME ENDPOINTS CONNECTIONS PER SECOND"),
        (80, "NAMESPACE/NAME ENDPOINTS"),
        (40, "NAMESPACE/NAME ENDPOINTS"),
    ],
)
def test_other_columns_go_before_names_are_cut(
    daemon: FakeDaemon, columns: int, titles: str
) -> None:
    head, first, second, _ = shown(daemon, columns)
    assert titles == " ".join(head)
    assert first[0] != second[0]
    whole = [f"team-with-a-name/{each.service}" for each in LONG]
    assert ([first[0], second[0]] == whole) == (columns >= 80)
    if columns == 40:
        assert first[0].startswith("team-")
        assert "…" in first[0]


def test_with_a_namespace_it_goes(daemon: FakeDaemon) -> None:
    head, first, _ = shown(daemon, 80, "-n", "team-with-a-name")
    assert (head[0], first[0]) == ("NAME", LONG[0].service)


def test_wide_cuts_nothing(daemon: FakeDaemon) -> None:
    text = " ".join(word for line in shown(daemon, 40, "-o", "wide") for word in line)
    assert "…" not in text
    assert "PORTS" in text


def changed(**fields: object) -> ServiceSummary:
    return replace(reported.CART, **fields)


def test_what_changes_is_printed_as_it_changes(daemon: FakeDaemon) -> None:
    daemon.pages[LIST] = in_turn(
        reported.services(reported.CART, reported.DNS),
        reported.services(changed(connections=5000), reported.DNS),
        reported.services(changed(endpoints_used=3), reported.DNS),
        reported.services(reported.DNS),
    )
    with in_terminal(command(daemon, "-w"), columns=120) as terminal:
        terminal.until(lambda: "gone" in terminal.said)
        interrupt(terminal)
    lines = plain(terminal.said).splitlines()
    rows = [line.split() for line in lines if line.startswith(("shop/", "kube-system/"))]
    assert [row[0] for row in rows] == ["shop/cart", "kube-system/dns", "shop/cart", "shop/cart"]
    assert "3/4" in rows[2]
    assert rows[3] == ["shop/cart", "gone"]


def interrupt(terminal: Terminal) -> None:
    terminal.type("\x03")
    assert terminal.wait() == 130
