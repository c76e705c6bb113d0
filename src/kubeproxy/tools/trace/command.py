"""`kube-proxy trace`: new connections of a service as they are made, and where they go."""

import math
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from kubeproxy.base.errors import FieldError, OperatorError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.printable import printable_lines
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import HELP, Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.kinds import FLOAT32, INT32, STRINGS
from kubeproxy.explain.destination import Destination, destination
from kubeproxy.linux.conntrack import ConnectionWatch
from kubeproxy.linux.links import interface_addresses
from kubeproxy.tools import client
from kubeproxy.tools.client import Client
from kubeproxy.tools.terminal import OUTPUT, look_of, say, wants_json
from kubeproxy.tools.trace import filters
from kubeproxy.tools.trace.index import Traced, index
from kubeproxy.tools.trace.lines import Columns, json_line
from kubeproxy.tools.trace.live import Refresher, follow
from kubeproxy.tools.trace.stream import Bounds, Trace
from kubeproxy.tools.trace.watched import Watched, remarks, watched_address, watched_ports

_OWN: Final = (
    Flag(
        "to",
        STRINGS,
        (),
        "Whose connections: [NAMESPACE/]SERVICE[:PORT][/PROTOCOL], or ADDRESS:PORT[/PROTOCOL],"
        " which needs no daemon. May be repeated.",
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
)
_FLAGS: Final = (*_OWN, OUTPUT, *client.FLAGS, HELP)
_AFTERWARDS: Final = """
It needs root on the node, or the proxy's own pod. Exit codes: 0 when it ended as asked, also by
Ctrl-C, 1 when it could not listen, 3 when a Service was named and no proxy answers.
"""


def usage_text() -> str:
    """How to call it."""
    return usage("kube-proxy trace --to SERVICE", _FLAGS) + _AFTERWARDS


def main(arguments: Sequence[str]) -> int:
    """Show connections until it is enough."""
    parsed = parse(_FLAGS, arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    refuse_positionals("kube-proxy trace", parsed, meant="to")
    as_json = wants_json(parsed)
    bounds = _bounds(parsed)
    wanted = [_wanted(text) for text in parsed.value("to", tuple)]
    if not wanted:
        raise UsageError("--to is missing: say whose connections", show_usage=False)
    daemon = Client(client.ways(parsed))
    with ConnectionWatch() as watch:
        watched = _look(daemon, wanted)
        for remark in remarks(watched):
            _remark(remark)
        refresher = Refresher(
            index(watched, _own_addresses()),
            lambda: index(_look(daemon, wanted), _own_addresses()),
            _remark,
        )
        if any(isinstance(each, Destination) for each in wanted):
            refresher.start()
        show = _json if as_json else _columns(watched)
        trace = Trace(refresher.known, bounds, lambda traced: _shown(traced, show, refresher))
        output = sys.stdout.fileno()
        _until_interrupted(lambda: follow(watch, trace, lambda: refresher.known, _remark, output))
        for line in trace.tally.summary(watch.lost):
            _remark(line)
    return 0


def _bounds(parsed: Parsed) -> Bounds:
    count, rate = parsed.value("count", int), parsed.value("rate", int)
    seconds = parsed.value("seconds", float)
    for name, value in (("count", count), ("seconds", seconds), ("rate", rate)):
        if not 0 <= value < math.inf:
            raise UsageError(f"--{name} {value:g}: must be 0 or more", show_usage=False)
    chosen = filters.parse(parsed.value("from", tuple), parsed.value("endpoint", tuple))
    return Bounds(chosen, count, seconds, rate)


def _wanted(text: str) -> Watched | Destination:
    """An address, of which nothing more needs to be known, or a Service."""
    to = destination(text)
    if not to.address:
        return to
    if not to.port:
        raise FieldError("to", text, "give the port too, as in ADDRESS:PORT/UDP")
    return watched_address(to.address, to.number, to.protocol or Protocol.TCP)


def _look(daemon: Client, wanted: Iterable[Watched | Destination]) -> list[Watched]:
    """What is known now. The daemon is asked for Services."""
    found: list[Watched] = []
    for each in wanted:
        if isinstance(each, Watched):
            found.append(each)
        else:
            found += _ports(daemon, each)
    return found


def _ports(daemon: Client, to: Destination) -> list[Watched]:
    try:
        return watched_ports(daemon.service(to.service), to.port, to.protocol)
    except OperatorError as error:
        raise FieldError("to", to.text, str(error)) from error


def _own_addresses() -> Iterator[str]:
    for family in Family:
        yield from interface_addresses(family)


def _shown(traced: Traced, show: Callable[[Traced], None], refresher: Refresher) -> None:
    show(traced)
    if traced.endpoint is not None and traced.endpoint.here is None:
        refresher.hurry()


def _json(traced: Traced) -> None:
    _show(json_line(traced, _now()))


def _columns(watched: Iterable[Watched]) -> Callable[[Traced], None]:
    """Writes the header; what writes lines comes back."""
    names = {each.name for each in watched}
    colours = look_of(sys.stdout, os.environ).colours
    columns = Columns(names, colours=colours)
    _show(columns.header())
    return lambda traced: _show(columns.line(traced, _now()))


def _until_interrupted(run: Callable[[], None]) -> None:
    """Ctrl-C is how a live view ends, and so is `timeout 60 kube-proxy trace ...`."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run()
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            _remark("")  # the terminal wrote ^C


def _now() -> datetime:
    return datetime.now(UTC).astimezone()


def _show(line: str) -> None:
    """Write a line that is read at once, also at the other end of a pipe."""
    say(line)
    sys.stdout.flush()


def _remark(text: str) -> None:
    """Say what is not a connection; nobody who reads the output has to know of it."""
    say(printable_lines(text), sys.stderr)
