"""`kube-proxy top`: keys and news change the state, and a state is a screen."""

import json
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from commands import told
from fakes.daemon import FakeDaemon, Query, Reply, always, in_turn, serving
from kubeproxy.cli import main
from kubeproxy.commands.fullscreen import keys
from kubeproxy.commands.terminal import Look, painted
from kubeproxy.commands.top_screen import screen, spark
from kubeproxy.commands.top_state import (
    MOST,
    News,
    State,
    beginning,
    heard,
    pressed,
    question,
    unheard,
)
from kubeproxy.status.wire import Rates, ServiceSummary
from terminals import Terminal, in_terminal

PROGRAM = (sys.executable, "-c", "import sys; from kubeproxy.cli import main; sys.exit(main())")


def many(count: int) -> tuple[ServiceSummary, ...]:
    return tuple(replace(told.CART, service=f"cart-{n:03}") for n in range(count))


def news(*services: ServiceSummary, **rates: float) -> News:
    found = {f"shop/{name}": rate for name, rate in rates.items()}
    return News(told.status(), told.services(*services), Rates(told.NOW, 2.0, found))


def known(*services: ServiceSummary) -> State:
    return heard(beginning(2.0), news(*services))


def after(state: State, *typed: str) -> State:
    for key in typed:
        state = pressed(state, key)
    return state


# --- the state --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("jq", ["j", "q"], id="letters"),
        pytest.param("\x1b[A\x1bOB", ["up", "down"], id="arrows-in-both-modes"),
        pytest.param("\x1b[5~\x1b[6~", ["page-up", "page-down"], id="pages"),
        pytest.param("\x1b[H\x1b[F", ["home", "end"], id="ends"),
        pytest.param("\x1b", ["escape"], id="escape-alone"),
        pytest.param("\x1b[15~\x1b[1;5Aq", ["q"], id="keys-without-a-meaning"),
        pytest.param("\r\x7f", ["enter", "backspace"], id="while-typing"),
        pytest.param("é", ["é"], id="other-letters"),
    ],
)
def test_keys(text: str, expected: list[str]) -> None:
    assert expected == keys(text)


@pytest.mark.parametrize(
    ("typed", "offset"),
    [
        pytest.param(["j", "down"], 2, id="down"),
        pytest.param(["j", "j", "k"], 1, id="and-up"),
        pytest.param(["up"], 0, id="not-above-the-first"),
        pytest.param(["page-down"], 10, id="a-page"),
        pytest.param(["page-down", "page-up"], 0, id="and-back"),
        pytest.param(["end"], 29, id="the-last"),
        pytest.param(["end", "j"], 29, id="not-below-the-last"),
        pytest.param(["end", "home"], 0, id="the-first"),
        pytest.param(["j", "s"], 0, id="another-order-begins-at-the-first"),
    ],
)
def test_scrolling(typed: list[str], offset: int) -> None:
    assert offset == after(known(*many(30)), *typed).offset


def test_fewer_services_than_before() -> None:
    state = after(known(*many(30)), "end")
    assert heard(state, news(*many(5))).offset == 4
    assert heard(state, news()).offset == 0


def test_each_order_in_turn() -> None:
    sorts = [after(known(), *["s"] * times).sort for times in range(4)]
    assert sorts == ["rate", "connections", "name", "rate"]


@pytest.mark.parametrize(
    ("typed", "search", "typing"),
    [
        pytest.param("/", "", True, id="begin"),
        pytest.param("/qs j", "qs j", True, id="keys-are-letters-then"),
        pytest.param("/cart\r", "cart", False, id="enter-keeps-it"),
        pytest.param("/cart\x1b", "", False, id="escape-ends-it"),
        pytest.param("/cart\r\x1b", "", False, id="escape-ends-it-later-too"),
        pytest.param("/cart\x7f\x7fx", "cax", True, id="backspace"),
        pytest.param("/a\x1b[Ab\x01", "ab", True, id="what-is-no-letter"),
    ],
)
def test_searching(typed: str, search: str, typing: bool) -> None:
    state = after(known(), *keys(typed))
    assert (search, typing) == (state.search, state.typing)


def test_what_is_asked_for() -> None:
    state = after(known(), *keys("s/cart\r"))
    assert question(state) == {"q": "cart", "sort": "connections", "limit": str(MOST)}


def test_pausing_and_leaving() -> None:
    assert after(known(), " ").paused
    assert not after(known(), " ", " ").paused
    assert after(known(), "q").done
    assert after(known(), "x") == known()


def test_the_last_minute_is_remembered() -> None:
    state = beginning(30.0)
    for rate in (1.0, 2.0, 3.0):
        state = heard(state, news(cart=rate))
    assert state.history == {"shop/cart": (2.0, 3.0)}
    assert state.total == (2.0, 3.0)


def test_who_is_idle_for_a_minute_is_forgotten() -> None:
    state = heard(beginning(30.0), news(cart=1.0))
    state = heard(state, news(dns=2.0))
    assert state.history == {"shop/cart": (1.0, 0.0), "shop/dns": (2.0,)}
    state = heard(heard(state, news()), news())
    assert (state.history, state.total) == ({}, (0.0, 0.0))


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(None, id="a-look-between-two-beats"),
        pytest.param(Rates(told.NOW, 0.0, {}), id="nobody-has-looked-for-long-enough"),
    ],
)
def test_what_says_nothing_of_rates_is_not_remembered(unknown: Rates | None) -> None:
    state = heard(beginning(2.0), news(cart=1.0))
    again = heard(state, replace(news(told.CART), rates=unknown))
    assert (state.history, state.total) == (again.history, again.total)
    assert again.services == (told.CART,)


def test_news_end_a_silence() -> None:
    assert heard(unheard(known(), "gone"), news()).silence == ""


# --- the screen -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "width", "expected"),
    [
        pytest.param((), 4, "    ", id="nothing-yet"),
        pytest.param((0.0, 0.0), 4, "    ", id="nought-has-no-bar"),
        pytest.param((1.0, 2.0, 4.0, 8.0), 4, "▂▃▅█", id="the-highest-is-full"),
        pytest.param((8.0, 1.0, 0.0, 0.001), 3, "█ ▁", id="only-the-latest-count"),
        pytest.param((1.0,), 3, "  █", id="at-the-right"),
        pytest.param((1.0,), 0, "", id="no-room"),
    ],
)
def test_bars(values: tuple[float, ...], width: int, expected: str) -> None:
    assert expected == spark(values, width)


def drawn(state: State, columns: int = 80, rows: int = 8) -> list[str]:
    return [painted(each, Look()).rstrip() for each in screen(state, columns, rows)]


def test_a_screen() -> None:
    state = known(told.CART, told.DNS)
    for rate in (5.0, 12.5):
        state = heard(state, news(told.CART, told.DNS, cart=rate))
    assert drawn(state) == [
        "kube-proxy top  kestrel, nftables mode  12.5 connections/s  ▄█",
        "by connections per second  syncs: 14 IPv4, 14 IPv6  12:00:00 UTC",
        "NAMESPACE/NAME   PER SECOND  LAST MINUTE                  CONNECTIONS  ENDPOINTS",
        "shop/cart              12.5                           ▄█        1,200        1/4",
        "kube-system/dns         0.5                                        77        8/8",
        "",
        "",
        "q quit  s sort  / search  space pause  arrows scroll   1-2 of 2 services",
    ]


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 200])
@pytest.mark.parametrize("rows", [1, 3, 10, 60])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_it_fits_any_window(columns: int, rows: int, count: int) -> None:
    state = known(*many(count))
    for each in (state, beginning(2.0), unheard(state, "gone " * 50), after(state, *keys("/abc"))):
        lines = screen(each, columns, rows)
        assert len(lines) == rows
        assert max(sum(len(span.text) for span in line) for line in lines) <= columns


def test_what_was_scrolled_away() -> None:
    lines = drawn(after(known(*many(30)), "page-down"), rows=8)
    assert [line.split()[0] for line in lines[3:6]] == [f"shop/cart-{n:03}" for n in (10, 11, 12)]
    assert lines[-1].endswith("11-13 of 30 services")


@pytest.mark.parametrize(
    ("typed", "place", "expected"),
    [
        pytest.param(" ", 1, "by connections per second  PAUSED", id="paused"),
        pytest.param("s", 1, "by connections so far ", id="another-order"),
        pytest.param("/ca\r", 1, "by connections per second, with 'ca'", id="a-search"),
        pytest.param("/ca", -1, "search: ca", id="a-search-that-is-typed"),
    ],
)
def test_what_keys_did_is_seen(typed: str, place: int, expected: str) -> None:
    assert drawn(after(known(told.CART), *keys(typed)))[place].startswith(expected)


def test_syncs_that_failed_and_a_daemon_that_is_silent() -> None:
    status = told.status(replace(told.family(), failures=1200))
    state = heard(beginning(2.0), replace(news(), status=status))
    assert "14 IPv4, 1,200 failed" in drawn(state)[1]
    assert drawn(state)[-1].endswith("no service")
    assert drawn(unheard(state, "gone"))[1] == "the proxy does not answer: gone"


# --- printed ----------------------------------------------------------------------------------

PAGES = {
    "/status": always(told.status()),
    "/status/services": always(told.services(told.CART, told.DNS)),
    "/status/rates": always(told.RATES),
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    with serving(FakeDaemon(PAGES), tmp_path / "socket") as daemon:
        yield daemon


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr("kubeproxy.commands.top.time.sleep", waits.append)
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
        "now": told.NOW,
        "node": "kestrel",
        "mode": "nftables",
        "seconds": 1.0,
        "perSecond": 13.0,
    }


def test_json_goes_on_until_the_daemon_is_gone(
    daemon: FakeDaemon, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.pages["/status/rates"] = in_turn(*[told.RATES] * 5, (404, "404 page not found"))
    assert main(["top", "--socket", daemon.socket, "-o=json"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == len(slept) - 1 == 4


def test_a_mode_that_counts_nothing(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = replace(told.status(), mode="iptables", counts_connections=False)
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


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
from kubeproxy.cli import main
from kubeproxy.commands import top

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
            "top.look = mistaken(top.look, lambda *_, rates=True: not rates)", id="in-the-thread"
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


def test_keys_are_heard_while_the_daemon_thinks(top: Terminal, daemon: FakeDaemon) -> None:
    answer = threading.Event()

    def slow(_: Query) -> Reply:
        answer.wait(30)
        return told.RATES

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
    top.until(lambda: top.shows("the proxy does not answer"))
    assert top.shows("shop/cart")
    daemon.pages.update(pages)
    top.until(lambda: top.shows("by connections per second"))


def test_a_dumb_terminal_gets_a_table(daemon: FakeDaemon) -> None:
    command = [*PROGRAM, "top", "--socket", daemon.socket, "--interval", "1"]
    with in_terminal(command, environment={"TERM": "dumb"}) as terminal:
        assert terminal.wait() == 0
        assert terminal.said.replace("\r\n", "\n") == PRINTED
