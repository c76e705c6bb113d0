"""`kube-proxy top`: the busiest services, live."""

import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError, KubeProxyError, OperatorError
from kubeproxy.config.flagset import HELP, Flag, Parsed
from kubeproxy.config.kinds import BOOL, INT32, FlagKind
from kubeproxy.config.values import parse_float32
from kubeproxy.serve.status.wire import DaemonStatus, ServiceList, ServiceRates, ServiceSummary
from kubeproxy.tools import client
from kubeproxy.tools.command import (
    OUTPUT,
    Command,
    display_of,
    not_negative,
    say,
    show,
    wants_json,
)
from kubeproxy.tools.services.view import not_counted
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
_FLAGS: Final = (
    Flag("interval", FlagKind("seconds", parse_float32), 2.0, "Time between two looks."),
    Flag("once", BOOL, False, "Print one table and end, as without a terminal."),
    Flag(
        "count",
        INT32,
        0,
        "Print so many tables or objects and end; 0: one table, or objects for ever.",
    ),
    OUTPUT,
    *client.FLAGS,
    HELP,
)
_AFTERWARDS: Final = """
Keys: q quits, arrows and j k move, Enter shows a service with its endpoints (Escape goes back), s
sorts by another column, / searches (Enter keeps the search, Escape ends it), space pauses. With
-o json there is an object a line for each interval.
"""


def _run(parsed: Parsed) -> int:
    interval, count = parsed.value("interval", float), not_negative(parsed, "count")
    if not 1 <= interval <= 3600:
        raise FieldError("interval", f"{interval:g}", "must be 1 to 3600")
    interval = max(interval, client.MOMENT)
    daemon = client.connect(parsed)
    status = daemon.get("/status", DaemonStatus)
    if not status.counts_connections:
        raise OperatorError(
            f"{not_counted(status.mode)}: there is nothing to watch; kube-proxy services shows"
            " the services"
        )
    as_json, once = wants_json(parsed), parsed.value("once", bool)
    if as_json or once or count or not _is_terminal():
        times = 1 if once else count or (None if as_json else 1)
        for news in islice(_looks(daemon, interval), times):
            _print(news, as_json=as_json)
    else:
        _watch(daemon, interval)
    return 0


COMMAND: Final = Command("top", _FLAGS, _run, _AFTERWARDS)
main, usage_text = COMMAND.main, COMMAND.usage_text


def _is_terminal() -> bool:
    """Whether there is a screen to draw on, and keys to wait for."""
    both = sys.stdin.isatty() and sys.stdout.isatty()
    return both and os.environ.get("TERM", "dumb") != "dumb"


def look(
    daemon: client.Client, query: Mapping[str, str], *, rates: bool = True, opened: str = ""
) -> News:
    """What the daemon says now, also of the Service that is opened."""
    news = News(
        rates=daemon.get("/status/rates", ServiceRates) if rates else None,
        found=daemon.get("/status/services", ServiceList, query),
        status=daemon.get("/status", DaemonStatus),
    )
    if not opened:
        return news
    try:
        return msgspec.structs.replace(news, detail=daemon.service(opened))
    except client.ErrorResponse as error:
        return msgspec.structs.replace(news, missing=str(error))


# --- printing ---------------------------------------------------------------------------------


class Beat(msgspec.Struct, frozen=True, rename="camel"):
    """What is printed of one interval for programs; the services are sorted by their rates."""

    now: str
    node: str
    mode: str
    seconds: float
    per_second: float
    services: tuple[ServiceSummary, ...]


def _looks(daemon: client.Client, interval: float) -> Iterator[News]:
    """What the daemon says of each interval."""
    query = question(beginning(interval))
    look(daemon, query)
    while True:
        time.sleep(interval)
        yield look(daemon, query)


def _print(news: News, *, as_json: bool) -> None:
    if as_json:
        status, rates = news.status, news.rates or ServiceRates("", 0.0, {})
        total = sum(rates.services.values())
        services = news.found.services
        beat = Beat(status.now, status.node, status.mode, rates.seconds, total, services)
        say(msgspec.json.encode(beat).decode())
    else:
        display = display_of(sys.stdout, os.environ)
        show(printed(news, display.width), display)
    sys.stdout.flush()


# --- watching ---------------------------------------------------------------------------------


def _watch(daemon: client.Client, interval: float) -> None:
    """Draw the state until the user quits.

    The daemon is asked in a thread, so that keys work while it computes.
    """
    state = beginning(interval)
    asked = question(state)
    state = updated(state, look(daemon, asked))
    due = time.monotonic() + client.MOMENT
    answers: queue.SimpleQueue[News | Exception] = queue.SimpleQueue()
    is_busy, opened = False, ""
    with Fullscreen() as terminal:

        def ask(query: Mapping[str, str], *, rates: bool, opened: str) -> None:
            try:
                answers.put(look(daemon, query, rates=rates, opened=opened))
            except Exception as error:  # noqa: BLE001  # raised again by the main thread
                answers.put(error)
            terminal.wake()

        while not state.done:
            columns, rows = terminal.size
            state = sized(state, rows)
            terminal.draw(screen(state, columns))
            is_due = time.monotonic() >= due and not state.paused
            is_other = (question(state), state.opened) != (asked, opened)
            if not is_busy and (is_due or is_other):
                asked, opened, is_busy = question(state), state.opened, True
                due = time.monotonic() + interval if is_due else due
                arguments = {"query": asked, "rates": is_due, "opened": opened}
                threading.Thread(target=ask, kwargs=arguments, daemon=True).start()
            idle = is_busy or state.paused
            for key in terminal.wait(_LONG if idle else due - time.monotonic()):
                state = pressed(state, key)
            if not answers.empty():
                state, is_busy = _after(state, answers.get()), False


def _after(state: TopState, answer: News | Exception) -> TopState:
    if isinstance(answer, News):
        return updated(state, answer)
    if not isinstance(answer, KubeProxyError):
        raise answer
    heading, _, reasons = str(answer).partition("\n")
    return unanswered(state, " ".join((reasons or heading).split()))
