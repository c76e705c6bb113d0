"""`kube-proxy top`, as a command: printed into a pipe, and live in a terminal."""

import json
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, Query, Reply, always, in_turn, serving
from kubeproxy.app.cli import main
from terminals import Terminal, in_terminal
from tools import reported

PROGRAM = (sys.executable, "-m", "kubeproxy")


# --- printed ----------------------------------------------------------------------------------

PAGES = {
    "/status": always(reported.status()),
    "/status/services": always(reported.services(reported.CART, reported.DNS)),
    "/status/rates": always(reported.RATES),
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    with serving(FakeDaemon(PAGES), tmp_path / "socket") as daemon:
        yield daemon


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr("kubeproxy.tools.top.command.time.sleep", waits.append)
    return waits


PRINTED = """\
NAMESPACE/NAME   PER SECOND  CONNECTIONS  ENDPOINTS
shop/cart              12.5        1,200        1/4
kube-system/dns         0.5           77        8/8
"""


def test_a_pipe_gets_one_table(
    daemon: FakeDaemon, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--socket", daemon.socket]) == 0
    assert capsys.readouterr() == (PRINTED, "")
    assert len(daemon.queries("/status/services")) == 2
    assert slept == [2.0]


def test_several_tables(
    daemon: FakeDaemon, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--socket", daemon.socket, "--count=2", "--interval=1.5"]) == 0
    assert capsys.readouterr().out == PRINTED * 2
    assert slept == [1.5, 1.5]


def test_no_look_finds_the_reading_of_the_one_before(
    daemon: FakeDaemon, slept: list[float]
) -> None:
    assert main(["top", "--socket", daemon.socket, "--interval=1"]) == 0
    assert slept == [1.1]


def test_a_line_of_json_for_each_interval(
    daemon: FakeDaemon, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--socket", daemon.socket, "-o=json", "--count=3"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == len(slept) == 3
    services = lines[0].pop("services")
    assert [each["service"] for each in services] == ["cart", "dns"]
    assert lines[0] == {
        "now": reported.NOW,
        "node": "kestrel",
        "mode": "nftables",
        "seconds": 1.0,
        "perSecond": 13.0,
    }


def test_json_goes_on_until_the_daemon_is_gone(
    daemon: FakeDaemon, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.pages["/status/rates"] = in_turn(*[reported.RATES] * 5, (404, "404 page not found"))
    assert main(["top", "--socket", daemon.socket, "-o=json"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == len(slept) - 1 == 4


def test_a_mode_that_counts_nothing(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = replace(reported.status(), mode="iptables", counts_connections=False)
    daemon.pages["/status"] = always(silent)
    assert main(["top", "--socket", daemon.socket]) == 1
    assert capsys.readouterr().err == (
        "Error: connections are not counted in iptables mode: there is nothing to watch;"
        " kube-proxy services shows the services\n"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--interval=0.5"], "--interval 0.5: must be 1 to 3600", id="too-often"),
        pytest.param(["--interval=nan"], "--interval nan: must be 1 to 3600", id="no-number"),
        pytest.param(["--count=-1"], "--count -1: must not be negative", id="negative-count"),
        pytest.param(["-o=yaml"], "--output yaml: must be text or json", id="bad-output"),
        pytest.param(
            ["x"], '"kube-proxy top" does not take any arguments, got ["x"]', id="no-flag"
        ),
    ],
)
def test_wrong_use(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *arguments]) == 1
    assert capsys.readouterr() == ("", f"Error: {expected}\n")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "-h"]) == 0
    out = capsys.readouterr().out
    assert "--interval seconds (default 2)" in out
    assert "Keys: q quits" in out


def test_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--socket", f"{tmp_path}/none"]) == 3
    assert "no kube-proxy answers here" in capsys.readouterr().err


# --- watched ----------------------------------------------------------------------------------


@pytest.fixture
def top(daemon: FakeDaemon) -> Iterator[Terminal]:
    command = [*PROGRAM, "top", "--socket", daemon.socket, "--interval", "1"]
    with in_terminal(command, columns=90, rows=12) as terminal:
        terminal.until(lambda: terminal.shows("shop/cart"))
        yield terminal


def is_restored(terminal: Terminal) -> bool:
    """Whether the terminal has its modes, its cursor and its screen again."""
    left = terminal.said.rindex("\x1b[?1049l")
    return (
        terminal.modes == termios.tcgetattr(terminal.theirs)
        and terminal.said.rindex("\x1b[?25h") > terminal.said.rindex("\x1b[?25l")
        and left > terminal.said.rindex("\x1b[?1049h")
    )


def test_q_quits_and_the_terminal_is_as_it_was(top: Terminal) -> None:
    assert termios.tcgetattr(top.theirs) != top.modes
    top.type("q")
    assert top.wait() == 0
    assert is_restored(top)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_it_and_the_terminal_is_as_it_was(
    top: Terminal, number: signal.Signals
) -> None:
    top.signal(number)
    assert 128 + number == top.wait()
    assert is_restored(top)


MISTAKEN = """
import sys
from kubeproxy.app.cli import main
from kubeproxy.tools.top import command as top

def mistaken(right, when):
    def done(*arguments, **named):
        if when(*arguments, **named):
            raise ZeroDivisionError
        return right(*arguments, **named)
    return done

{mistake}
sys.exit(main())
"""


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            "top.screen = mistaken(top.screen, lambda state, *_: state.paused)", id="on-the-screen"
        ),
        pytest.param(
            "top.look = mistaken(top.look, lambda *_, rates=True, **__: not rates)",
            id="in-the-thread",
        ),
    ],
)
def test_a_mistake_of_ours_leaves_the_terminal_as_it_was(daemon: FakeDaemon, mistake: str) -> None:
    program = [sys.executable, "-c", MISTAKEN.format(mistake=mistake)]
    with in_terminal([*program, "top", "--socket", daemon.socket]) as terminal:
        terminal.until(lambda: terminal.shows("shop/cart"))
        terminal.type("s ")
        assert terminal.wait() == 1
        assert is_restored(terminal)
        assert "ZeroDivisionError" in terminal.said.rpartition("\x1b[?1049l")[2]


def test_it_goes_to_the_background_and_comes_back(top: Terminal) -> None:
    top.type("\x1a")
    top.until(lambda: top.is_stopped() and "\x1b[?1049l" in top.said)
    assert is_restored(top)
    before = len(top.said)
    top.signal(signal.SIGCONT)
    top.until(lambda: "\x1b[?1049h" in top.said[before:])
    top.until(lambda: "shop/cart" in top.said[before:])
    top.type("q")
    assert top.wait() == 0


def test_the_window_gets_another_size(top: Terminal) -> None:
    assert len(top.frame()) == 12
    top.resize(60, 7)
    top.until(lambda: len(top.frame()) == 7)
    assert max(map(len, top.frame())) <= 60


def test_the_last_column_is_not_erased(top: Terminal) -> None:
    assert [line[-4:] for line in top.frame()[2:4]] == ["INTS", " 1/4"]
    assert len(top.frame()[2]) == 90


def test_keys_work_while_the_daemon_computes(top: Terminal, daemon: FakeDaemon) -> None:
    answer = threading.Event()

    def slow(_: Query) -> Reply:
        answer.wait(30)
        return reported.RATES

    daemon.pages["/status/rates"] = slow
    asked = len(daemon.queries("/status/rates"))
    top.until(lambda: len(daemon.queries("/status/rates")) > asked)
    top.type(" ")
    top.until(lambda: top.shows("PAUSED"))
    answer.set()


def test_another_order_and_a_search_are_asked_for_at_once(
    top: Terminal, daemon: FakeDaemon
) -> None:
    top.type("s")
    top.until(lambda: daemon.queries("/status/services")[-1]["sort"] == ["connections"])
    top.type("/dns\r")
    top.until(lambda: daemon.queries("/status/services")[-1].get("q") == ["dns"])
    top.until(lambda: top.shows("by connections so far, with 'dns'"))


def test_a_daemon_that_goes_and_comes_back(top: Terminal, daemon: FakeDaemon) -> None:
    pages = dict(daemon.pages)
    daemon.pages.clear()
    top.until(lambda: top.shows(f"the proxy does not answer: {daemon.socket[:40]}"))
    assert top.shows("shop/cart")
    daemon.pages.update(pages)
    top.until(lambda: top.shows("by connections per second"))


def test_a_dumb_terminal_gets_a_table(daemon: FakeDaemon) -> None:
    command = [*PROGRAM, "top", "--socket", daemon.socket, "--interval", "1"]
    with in_terminal(command, environment={"TERM": "dumb"}) as terminal:
        assert terminal.wait() == 0
        assert terminal.said.replace("\r\n", "\n") == PRINTED


def test_enter_shows_a_service_and_escape_goes_back(top: Terminal, daemon: FakeDaemon) -> None:
    daemon.pages["/status/services/shop/cart"] = always(reported.detail())
    top.type("\r")
    top.until(lambda: top.shows("FRONTEND"))
    assert top.shows("shop/cart   on node")
    assert not top.shows("kube-system/dns")
    top.type("\x1b")
    top.until(lambda: top.shows("kube-system/dns"))
    daemon.pages["/status/services/shop/cart"] = always((404, "no Service named cart is proxied"))
    top.type("\r")
    top.until(lambda: top.shows("no Service named cart is proxied"))
    top.type("q")
    assert top.wait() == 0
