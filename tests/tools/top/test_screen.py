"""The live view without a terminal: keys and news to a state, the state to lines."""

import pytest
from msgspec.structs import replace

from kubeproxy.serve.status.wire import ServiceRates, ServiceSummary
from kubeproxy.tools.layout import Display, painted
from kubeproxy.tools.top.fullscreen import keys
from kubeproxy.tools.top.screen import screen, spark
from kubeproxy.tools.top.state import (
    MOST,
    News,
    TopState,
    beginning,
    pressed,
    question,
    sized,
    unanswered,
    updated,
)
from tools import reported


def many(count: int) -> tuple[ServiceSummary, ...]:
    return tuple(replace(reported.CART, service=f"cart-{n:03}") for n in range(count))


def news(*services: ServiceSummary, **rates: float) -> News:
    found = {f"shop/{name}": rate for name, rate in rates.items()}
    return News(
        reported.status(), reported.services(*services), ServiceRates(reported.NOW, 2.0, found)
    )


def known(*services: ServiceSummary) -> TopState:
    return updated(beginning(2.0), news(*services))


def after(state: TopState, *typed: str) -> TopState:
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
    ("typed", "cursor", "offset"),
    [
        pytest.param(["j", "down"], 2, 0, id="down"),
        pytest.param(["j", "j", "k"], 1, 0, id="and-up"),
        pytest.param(["j"] * 8, 8, 2, id="further-than-the-window"),
        pytest.param(["up"], 0, 0, id="not-above-the-first"),
        pytest.param(["page-down"], 7, 7, id="a-page"),
        pytest.param(["page-down", "up"], 6, 6, id="up-from-a-page"),
        pytest.param(["page-down", "page-up"], 0, 0, id="and-back"),
        pytest.param(["end"], 29, 23, id="the-last-page"),
        pytest.param(["end", "j"], 29, 23, id="not-below-the-last"),
        pytest.param(["end", "up"], 28, 23, id="up-from-the-last"),
        pytest.param(["end", "home"], 0, 0, id="the-first"),
        pytest.param(["end", "s"], 0, 0, id="another-order-begins-at-the-first"),
        pytest.param(["end", "/", "x"], 0, 0, id="so-does-a-search"),
    ],
)
def test_scrolling(typed: list[str], cursor: int, offset: int) -> None:
    state = after(sized(known(*many(30)), rows=12), *typed)
    assert (state.cursor, state.offset) == (cursor, offset)


# --- one service ------------------------------------------------------------------------------


def opened(*typed: str) -> TopState:
    """After Enter on the second row."""
    return after(sized(known(reported.DNS, reported.CART), rows=12), "j", "enter", *typed)


def with_detail(state: TopState, rows: int = 12) -> list[str]:
    found = replace(news(reported.DNS, reported.CART), detail=reported.detail())
    return drawn(updated(state, found), rows=rows)


@pytest.mark.parametrize(
    ("typed", "name", "done"),
    [
        pytest.param([], "shop/cart", False, id="enter-opens-the-row-under-the-cursor"),
        pytest.param(["escape"], "", False, id="escape-goes-back"),
        pytest.param(["enter"], "", False, id="so-does-enter"),
        pytest.param(["q"], "shop/cart", True, id="q-quits"),
        pytest.param(["s", "/", "x"], "shop/cart", False, id="other-keys-do-nothing"),
    ],
)
def test_a_service_alone(typed: list[str], name: str, done: bool) -> None:
    state = opened(*typed)
    assert (state.opened, state.done, state.typing) == (name, done, False)


def test_nothing_is_opened_where_there_is_nothing() -> None:
    assert after(known(), "enter").opened == ""


def test_a_service_alone_is_shown_with_its_endpoints() -> None:
    lines = with_detail(opened(), rows=12)
    assert len(lines) == 12
    assert lines[2].startswith("shop/cart   on node ")
    assert "1-9 of" in lines[-1]
    assert with_detail(opened("j"))[2] == lines[3]
    assert with_detail(opened("page-down", "home", " "))[2] == lines[2]
    assert "PAUSED" in with_detail(opened(" "))[1]
    last = with_detail(opened("end"))
    assert last[2] != lines[2]
    assert with_detail(opened("end", "j"))[2] == last[2]


def test_a_service_that_is_asked_for_or_gone() -> None:
    assert drawn(opened(), rows=12)[2] == "shop/cart  is asked for"
    gone = replace(news(reported.CART), missing="no Service named cart is proxied")
    assert drawn(updated(opened(), gone), rows=12)[2] == "no Service named cart is proxied"
    assert drawn(replace(opened(), news=None), rows=12)[2] == "shop/cart  is asked for"


def test_fewer_services_than_before() -> None:
    state = after(sized(known(*many(30)), rows=12), "end")
    assert updated(state, news(*many(10))).offset == 3
    assert updated(state, news(*many(5))).offset == 0
    assert updated(state, news()).offset == 0


def test_a_larger_window_is_filled() -> None:
    state = after(sized(known(*many(30)), rows=12), "end")
    assert sized(state, rows=25).offset == 10
    assert sized(state, rows=60).offset == 0


def test_what_fits_is_not_scrolled() -> None:
    assert after(sized(known(*many(7)), rows=12), "j", "page-down", "end").offset == 0


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
        state = updated(state, news(cart=rate))
    assert state.history == {"shop/cart": (2.0, 3.0)}
    assert state.total == (2.0, 3.0)


def test_services_idle_for_a_minute_are_forgotten() -> None:
    state = updated(beginning(30.0), news(cart=1.0))
    state = updated(state, news(dns=2.0))
    assert state.history == {"shop/cart": (1.0, 0.0), "shop/dns": (2.0,)}
    state = updated(updated(state, news()), news())
    assert (state.history, state.total) == ({}, (0.0, 0.0))


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(None, id="a-look-between-two-beats"),
        pytest.param(ServiceRates(reported.NOW, 0.0, {}), id="not-asked-for-a-long-time"),
    ],
)
def test_what_says_nothing_of_rates_is_not_remembered(unknown: ServiceRates | None) -> None:
    state = updated(beginning(2.0), news(cart=1.0))
    again = updated(state, replace(news(reported.CART), rates=unknown))
    assert (state.history, state.total) == (again.history, again.total)
    assert again.services == (reported.CART,)


def test_news_end_a_silence() -> None:
    assert updated(unanswered(known(), "gone"), news()).silence == ""


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


def drawn(state: TopState, columns: int = 80, rows: int = 8) -> list[str]:
    return [painted(each, Display()).rstrip() for each in screen(sized(state, rows), columns)]


def test_a_screen() -> None:
    state = known(reported.CART, reported.DNS)
    for rate in (5.0, 12.5):
        state = updated(state, news(reported.CART, reported.DNS, cart=rate))
    assert drawn(state) == [
        "kube-proxy top  kestrel, nftables mode  12.5 connections/s  ▄█",
        "by connections per second  syncs: 14 IPv4, 14 IPv6  12:00:00 UTC",
        "NAMESPACE/NAME   PER SECOND  LAST MINUTE                  CONNECTIONS  ENDPOINTS",
        "shop/cart              12.5                           ▄█        1,200        1/4",
        "kube-system/dns         0.5                                        77        8/8",
        "",
        "",
        "q quit  s sort  / search  Enter details  space pause   1-2 of 2 services",
    ]


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 200])
@pytest.mark.parametrize("rows", [1, 3, 10, 60])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_it_fits_any_window(columns: int, rows: int, count: int) -> None:
    state = known(*many(count))
    for each in (
        state,
        beginning(2.0),
        unanswered(state, "gone " * 50),
        after(state, *keys("/abc")),
    ):
        lines = screen(sized(each, rows), columns)
        assert len(lines) == rows
        assert max(sum(len(span.text) for span in line) for line in lines) <= columns


def test_what_was_scrolled_away() -> None:
    lines = drawn(after(sized(known(*many(30)), rows=8), "page-down"), rows=8)
    assert [line.split()[0] for line in lines[3:6]] == [f"shop/cart-{n:03}" for n in (3, 4, 5)]
    assert lines[-1].endswith("4-6 of 30 services")


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
    assert drawn(after(known(reported.CART), *keys(typed)))[place].startswith(expected)


def test_syncs_that_failed_and_a_daemon_that_is_silent() -> None:
    status = reported.status(replace(reported.family(), failures=1200))
    state = updated(beginning(2.0), replace(news(), status=status))
    assert "14 IPv4, 1,200 failed" in drawn(state)[1]
    assert drawn(state)[-1].endswith("no service")
    assert drawn(unanswered(state, "gone"))[1] == "the proxy does not answer: gone"
