"""`kube-proxy top`: the busiest services, live."""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from kubeproxy.base.errors import KubeProxyError, OperatorError
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import HELP, Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.kinds import BOOL, INT32, FlagKind
from kubeproxy.config.values import parse_float32
from kubeproxy.serve.status.wire import DaemonStatus, ServiceList, ServiceRates, ServiceSummary
from kubeproxy.tools import client
from kubeproxy.tools.services.view import not_counted
from kubeproxy.tools.terminal import OUTPUT, look_of, say, show, wants_json
from kubeproxy.tools.top.fullscreen import Fullscreen
from kubeproxy.tools.top.screen import printed, screen
from kubeproxy.tools.top.state import (
    News,
    TopState,
    beginning,
    pressed,
    question,
    sized,
    unanswered,
    updated,
)

_LONG: Final = 60.0
_OWN: Final = (
    Flag("interval", FlagKind("seconds", parse_float32), 2.0, "Time between two looks."),
    Flag("once", BOOL, False, "Print one table and end, as without a terminal."),
    Flag(
        "count",
        INT32,
        0,
        "Print so many tables or objects and end; 0: one table, or objects for ever.",
    ),
    OUTPUT,
)
_FLAGS: Final = (*_OWN, *client.FLAGS, HELP)
_AFTERWARDS: Final = """
Keys: q quits, arrows and j k scroll, s sorts by another column, / searches (Enter keeps the
search, Escape ends it), space pauses. With -o json there is an object a line for each interval.
"""


def usage_text() -> str:
    """How to call it."""
    return usage("kube-proxy top", _FLAGS) + _AFTERWARDS


def main(arguments: Sequence[str]) -> int:
    """Show the busiest services until the user quits."""
    parsed = parse(_FLAGS, arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy top", parsed)
    interval = _interval(parsed)
    as_json = wants_json(parsed)
    daemon = client.Client(client.ways(parsed))
    status = daemon.get("/status", DaemonStatus)
    if not status.counts_connections:
        raise OperatorError(
            f"{not_counted(status.mode)}: there is nothing to watch; kube-proxy services shows"
            " the services"
        )
    if as_json or _is_printed(parsed):
        for news in islice(_looks(daemon, interval), _times(parsed, as_json=as_json)):
            _print(news, as_json=as_json)
    else:
        _watch(daemon, interval)
    return 0


def _interval(parsed: Parsed) -> float:
    interval, count = parsed.value("interval", float), parsed.value("count", int)
    if not 1 <= interval <= 3600:
        raise UsageError(f"--interval {interval:g}: must be 1 to 3600", show_usage=False)
    if count < 0:
        raise UsageError(f"--count {count}: must not be negative", show_usage=False)
    return max(interval, client.MOMENT)


def look(daemon: client.Client, query: Mapping[str, str], *, rates: bool = True) -> News:
    """What the daemon says now."""
    return News(
        rates=daemon.get("/status/rates", ServiceRates) if rates else None,
        found=daemon.get("/status/services", ServiceList, query),
        status=daemon.get("/status", DaemonStatus),
    )


# --- printing ---------------------------------------------------------------------------------


class Beat(msgspec.Struct, frozen=True, rename="camel"):
    """What is printed of one interval for programs; the services are sorted by their rates."""

    now: str
    node: str
    mode: str
    seconds: float
    per_second: float
    services: tuple[ServiceSummary, ...]


def _is_printed(parsed: Parsed) -> bool:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    wanted = parsed.value("once", bool) or parsed.value("count", int) > 0
    return wanted or not terminal or os.environ.get("TERM", "dumb") == "dumb"


def _times(parsed: Parsed, *, as_json: bool) -> int | None:
    """How often to print; None is for ever."""
    if parsed.value("once", bool):
        return 1
    return parsed.value("count", int) or (None if as_json else 1)


def _looks(daemon: client.Client, interval: float) -> Iterator[News]:
    """What the daemon says of each interval."""
    query = question(beginning(interval))
    look(daemon, query)
    while True:
        time.sleep(interval)
        yield look(daemon, query)


def _print(news: News, *, as_json: bool) -> None:
    if as_json:
        say(msgspec.json.encode(_beat(news)).decode())
    else:
        shown = look_of(sys.stdout, os.environ)
        show(printed(news, shown.width), shown)
    sys.stdout.flush()


def _beat(news: News) -> Beat:
    status, rates = news.status, news.rates
    return Beat(
        now=status.now,
        node=status.node,
        mode=status.mode,
        seconds=rates.seconds if rates else 0.0,
        per_second=sum(rates.services.values()) if rates else 0.0,
        services=news.found.services,
    )


# --- watching ---------------------------------------------------------------------------------


class _Asker:
    """Asks in a thread of its own, so that keys work while the daemon computes."""

    def __init__(self, daemon: client.Client, wake: Callable[[], None]) -> None:
        self.is_busy = False
        self._daemon = daemon
        self._wake = wake
        self._queries: queue.SimpleQueue[tuple[dict[str, str], bool]] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[News | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="asker", daemon=True).start()

    def ask(self, query: dict[str, str], *, rates: bool) -> None:
        """Begin to ask."""
        self.is_busy = True
        self._queries.put((query, rates))

    def answer(self) -> News | Exception | None:
        """What came of it, when something did."""
        try:
            found = self._answers.get_nowait()
        except queue.Empty:
            return None
        self.is_busy = False
        return found

    def _run(self) -> None:
        while True:
            query, rates = self._queries.get()
            try:
                self._answers.put(look(self._daemon, query, rates=rates))
            except Exception as error:  # noqa: BLE001  # raised again by the main thread
                self._answers.put(error)
            self._wake()


def _watch(daemon: client.Client, interval: float) -> None:
    state = beginning(interval)
    asked = question(state)
    state = updated(state, look(daemon, asked))
    due = time.monotonic() + client.MOMENT
    with Fullscreen() as terminal:
        asker = _Asker(daemon, terminal.wake)
        while not state.done:
            columns, rows = terminal.size
            state = sized(state, rows)
            terminal.draw(screen(state, columns))
            is_due = time.monotonic() >= due and not state.paused
            if not asker.is_busy and (is_due or question(state) != asked):
                asked = question(state)
                asker.ask(asked, rates=is_due)
                due = time.monotonic() + interval if is_due else due
            idle = asker.is_busy or state.paused
            for key in terminal.wait(_LONG if idle else due - time.monotonic()):
                state = pressed(state, key)
            state = _after(state, asker.answer())


def _after(state: TopState, answer: News | Exception | None) -> TopState:
    match answer:
        case None:
            return state
        case News():
            return updated(state, answer)
        case KubeProxyError() as error:
            heading, _, reasons = str(error).partition("\n")
            return unanswered(state, " ".join((reasons or heading).split()))
        case error:
            raise error
