"""`kube-proxy trace`: new connections of a service as they are made, and where they go."""

import contextlib
import errno
import math
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from kubeproxy.base.errors import FieldError, KernelError, KubeProxyError, OperatorError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.printable import printable_lines
from kubeproxy.config.flagset import HELP, Flag, Parsed
from kubeproxy.config.kinds import BOOL, FLOAT32, INT32, STRINGS
from kubeproxy.explain.destination import Destination, destination
from kubeproxy.linux.conntrack import ConnectionWatch, statuses
from kubeproxy.linux.links import interface_addresses
from kubeproxy.serve.status.tablewire import read_table
from kubeproxy.serve.status.wire import DaemonStatus, FailureList
from kubeproxy.tools import client
from kubeproxy.tools.command import OUTPUT, Command, display_of, say, wants_json
from kubeproxy.tools.trace.connections import (
    UNKNOWN,
    Bounds,
    Index,
    Trace,
    Watched,
    index,
    parse_filter,
    remarks,
    watched_address,
    watched_ports,
)
from kubeproxy.tools.trace.everything import watched_table
from kubeproxy.tools.trace.failures import failed_of, summary
from kubeproxy.tools.trace.lines import Columns, json_lines
from kubeproxy.tools.trace.refusals import summary as refusal_summary
from kubeproxy.tools.trace.refused import RefusalWatch
from kubeproxy.tools.trace.screen import Screen, write
from kubeproxy.tools.trace.tracked import lines

_FLAGS: Final = (
    Flag(
        "to",
        STRINGS,
        (),
        "Whose connections: [NAMESPACE/]SERVICE[:PORT][/PROTOCOL], or ADDRESS:PORT[/PROTOCOL],"
        " which needs no daemon. May be repeated; default: those of all Services.",
        "Connection",
    ),
    Flag(
        "from",
        STRINGS,
        (),
        "Only those of these clients: ADDRESS or CIDR. May be repeated.",
        "Connection",
    ),
    Flag(
        "endpoint",
        STRINGS,
        (),
        "Only those that go to these endpoints: ADDRESS[:PORT]. May be repeated.",
        "Connection",
    ),
    Flag("count", INT32, 0, "End after so many connections; 0: do not.", "Limit"),
    Flag("seconds", FLOAT32, 0.0, "End after so many seconds; 0: do not.", "Limit"),
    Flag(
        "rate",
        INT32,
        100,
        "Show at most so many connections a second, and count the rest; 0: show all.",
        "Limit",
    ),
    Flag(
        "verbose",
        BOOL,
        False,
        "At the end, say how the kernel tracks each of the connections shown, up to 1,000: the"
        " status of its conntrack entry, and whether it takes the fast path.",
        "Limit",
        shorthand="v",
    ),
    OUTPUT,
    *client.FLAGS,
    HELP,
)
_AT_ONCE: Final = 1000
"""Events that are taken before anything else is done: some milliseconds."""
_HURRIED_SECONDS: Final = 1.0
_ALL_SECONDS: Final = 4.0
"""The table of all Services is large."""
_SLOWER: Final = 15
"""If nothing is new, as often as a scrape: an answer costs the daemon a reading of counters."""
_FAILURE_SECONDS: Final = 0.25
_AFTERWARDS: Final = """
It needs root on the node, or the proxy's own pod. Exit codes: 0 when it ended as asked, also by
Ctrl-C, 1 when it could not listen, 3 when no proxy answers and --to is no address.
"""


def _run(parsed: Parsed) -> int:
    bounds = _bounds(parsed)
    wanted = [_wanted(text) for text in parsed.value("to", tuple)]
    daemon = client.connect(parsed)
    reader = FailureReader(partial(_failures, client.connect(parsed)))
    names_services = not wanted or any(isinstance(each, Destination) for each in wanted)
    if names_services:
        reader.begin()
    watched = _look(daemon, wanted)
    refresher = Refresher(
        index(watched, _own_addresses()),
        lambda: index(_look(daemon, wanted), _own_addresses()),
        _HURRIED_SECONDS if wanted else _ALL_SECONDS,
    )
    with contextlib.ExitStack() as stack:
        refusals = _refusals(parsed, watched) if names_services else None
        if refusals is not None:
            stack.enter_context(refusals).aim(refresher.known)
        sources = Sources(stack.enter_context(ConnectionWatch()), reader, refusals)
        if names_services:
            refresher.start()
        reader.start()
        screen = _screen(parsed, watched, refresher)
        trace = Trace(refresher.known, bounds, screen.take)
        # `timeout 60 kube-proxy trace ...` ends it as Ctrl-C does, which is how a live view ends.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            follow(sources, trace, refresher, screen)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                _remark("")  # the terminal wrote ^C
        screen.finish()
        for line in (
            *trace.summary(sources.lost),
            *refusal_summary(trace.refusals, trace.refusals_shown),
            *summary(trace.failures, trace.failures_shown),
            *(lines(statuses(trace.latest)) if parsed.value("verbose", bool) else ()),
        ):
            _remark(line)
    return 0


COMMAND: Final = Command("trace", _FLAGS, _run, _AFTERWARDS, meant="to", kernel=True)
main, usage_text = COMMAND.main, COMMAND.usage_text


class Sources(NamedTuple):
    """What a trace learns from; there may be no way to see what the rules refuse."""

    watch: ConnectionWatch
    reader: "FailureReader"
    refusals: RefusalWatch | None

    @property
    def lost(self) -> int:
        """How many events came too fast."""
        return self.watch.lost + (self.refusals.lost if self.refusals else 0)


def follow(sources: Sources, trace: Trace, refresher: "Refresher", screen: Screen) -> None:
    """Trace until the bounds are reached. Interrupt it to end it before.

    It ends at once when the reader of the output is gone: with a quiet Service, the next write
    may be far off.
    """
    watch, reader, refusals = sources
    poll = select.poll()
    for source in (watch, reader, *([refusals] if refusals else ())):
        poll.register(source, select.POLLIN)
    poll.register(screen.output, 0)  # its end is reported unasked
    lost = 0
    now = time.monotonic()
    end = now + trace.bounds.seconds if trace.bounds.seconds else math.inf
    next_second = now + 1
    while now < end and not (trace.is_complete and screen.is_done):
        ready = poll.poll(1000 * max(0.0, min(next_second, end, screen.next) - now))
        if any(descriptor == screen.output for descriptor, _ in ready):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        trace.known = refresher.known
        for event in watch.events(0 if trace.is_complete else _AT_ONCE):
            trace.take(event)
            if trace.is_complete:
                break
        if refusals is not None:
            refusals.aim(trace.known)
            refusals.take(trace)
        screen.settle()
        for news in reader.take():
            _take_failures(trace, news)
        now = time.monotonic()
        if now >= next_second:
            next_second = now + 1
            lost_before, lost = lost, sources.lost
            _account(trace.begin_second(), lost - lost_before)


def _take_failures(trace: Trace, news: FailureList) -> None:
    for reported in news.failures:
        failed = failed_of(trace.known, trace.bounds.wanted, reported)
        if failed is not None:
            trace.take_failed(failed)
    if news.missed:
        _remark(f"... {news.missed:,} failures of this node came too fast and are lost")


def _account(held_back: int, lost: int) -> None:
    """Print what was not shown in the second that is over."""
    if held_back:
        _remark(f"... {held_back:,} more in the last second (--rate shows more)")
    if lost:
        _remark(f"... {lost:,} events of this node came too fast and are lost")


class Refresher(threading.Thread):
    """Asks the daemon again and again for the service ports; it ends with the process.

    What was known stays while the daemon does not answer; that is reported once. When `needed` is
    set, there is a connection to an unknown endpoint: then it asks soon.
    """

    def __init__(
        self, known: Index, look: Callable[[], Index], seconds: float = _HURRIED_SECONDS
    ) -> None:
        """Wait so many seconds at least, and 15 times as long when nothing is new."""
        super().__init__(daemon=True)
        self.known = known
        self._seconds = seconds
        self.needed = threading.Event()
        self._look = look
        self._failing = False

    def run(self) -> None:
        """Be the thread."""
        while True:
            time.sleep(self._seconds)
            self.needed.wait(self._seconds * (_SLOWER - 1))
            self.needed.clear()
            self.refresh()

    def refresh(self) -> None:
        """Ask now."""
        try:
            self.known = self._look()
        except KubeProxyError as error:
            if not self._failing:
                _remark(f"... going on with the endpoints known so far: {error}")
            self._failing = True
        else:
            if self._failing:
                _remark("... the daemon answers again")
            self._failing = False


class FailureReader(threading.Thread):
    """Asks the daemon again and again what endpoints failed; it ends with the process.

    It ends at once where there is no daemon, or its mode does not heal.
    """

    def __init__(self, ask: Callable[[int], FailureList]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self._news: deque[FailureList] = deque()
        self._known: FailureList | None = None
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """It is readable when there are news."""
        return self._wake

    def take(self) -> Iterator[FailureList]:
        """The news."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._news:
            yield self._news.popleft()

    def begin(self) -> None:
        """Ask for the first time: what has failed before is not shown."""
        with contextlib.suppress(KubeProxyError):
            self._known = self._ask(0)

    def run(self) -> None:
        """Be the thread."""
        if self._known is None:
            self.begin()
        while self._known is not None and self._known.heals:
            time.sleep(_FAILURE_SECONDS)
            with contextlib.suppress(KubeProxyError):  # it is asked again, and so for Services
                self._known = self._refresh(self._known)

    def _refresh(self, known: FailureList) -> FailureList:
        found = self._ask(known.last)
        if found.started != known.started:  # another daemon: its numbers begin at 1
            found = self._ask(0)
        if found.failures:
            self._news.append(found)
            os.eventfd_write(self._wake, 1)
        return found


# --- what is wanted ---------------------------------------------------------------------------


def _bounds(parsed: Parsed) -> Bounds:
    count, rate = parsed.value("count", int), parsed.value("rate", int)
    seconds = parsed.value("seconds", float)
    for name, value in (("count", count), ("seconds", seconds), ("rate", rate)):
        if not 0 <= value < math.inf:
            raise FieldError(name, f"{value:g}", "must be 0 or more")
    chosen = parse_filter(parsed.value("from", tuple), parsed.value("endpoint", tuple))
    return Bounds(chosen, count, seconds, rate)


def _wanted(text: str) -> Watched | Destination:
    """An address, of which nothing more needs to be known, or a Service."""
    to = destination(text)
    if not to.address:
        return to
    if not to.port:
        raise FieldError("to", text, "give the port too, as in ADDRESS:PORT/UDP")
    return watched_address(to.address, to.number, to.protocol or Protocol.TCP)


def _look(daemon: client.Client, wanted: Sequence[Watched | Destination]) -> list[Watched]:
    """The service ports as they are now, all if none are wanted. The daemon knows Services."""
    if not wanted:
        return list(_all(daemon))
    found: list[Watched] = []
    for each in wanted:
        if isinstance(each, Watched):
            found.append(each)
            continue
        try:
            found += watched_ports(daemon.service(each.service), each.port, each.protocol)
        except OperatorError as error:
            raise FieldError("to", each.text, str(error)) from error
    return found


def _screen(parsed: Parsed, watched: Iterable[Watched], refresher: "Refresher") -> Screen:
    """What shows connections; the header, if there is one, is written now."""
    if wants_json(parsed):
        return Screen(json_lines, refresher.needed)
    names = {each.name for each in watched}
    if not parsed.value("to", tuple):
        names |= {"", UNKNOWN}  # there may be others later
    columns = Columns(names, display_of(sys.stdout, os.environ))
    write(columns.header())
    return Screen(columns.lines, refresher.needed)


def _all(daemon: client.Client) -> Iterator[Watched]:
    for each in daemon.get("/status", DaemonStatus).families:
        lines = daemon.read("/status/table", {"family": each.ip_family})
        yield from watched_table(read_table(lines).table)


def _refusals(parsed: Parsed, watched: Iterable[Watched]) -> RefusalWatch | None:
    """What sees refused and dropped packets; None where the kernel cannot do that."""
    try:
        return RefusalWatch(client.connect(parsed))
    except KernelError as error:
        why = f"that needs nf_tables and nfnetlink_log, and Linux 5.12: {error}"
        _remark(f"note: connections that are refused or dropped are not shown: {why}")
        for remark in remarks(watched) if parsed.value("to", tuple) else ():
            _remark(remark)
        return None


def _failures(daemon: client.Client, after: int) -> FailureList:
    return daemon.get("/status/failures", FailureList, {"after": str(after)})


def _own_addresses() -> Iterator[str]:
    for family in Family:
        yield from interface_addresses(family)


def _remark(text: str) -> None:
    """Print what is not a connection, apart from the output."""
    say(printable_lines(text), sys.stderr)
