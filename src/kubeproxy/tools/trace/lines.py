"""Connections as text: aligned columns for people, one JSON object a line for programs."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from kubeproxy.serve.status.wire import EndpointDetail
from kubeproxy.tools.layout import (
    GAP,
    Column,
    Display,
    Line,
    Span,
    Style,
    fitted_row,
    painted,
)
from kubeproxy.tools.trace.connections import (
    ELSEWHERE,
    NOT_TRANSLATED,
    UNKNOWN,
    Failed,
    Refusal,
    Shown,
    Traced,
)
from kubeproxy.tools.trace.outcomes import Outcome

T = TypeVar("T")


class TracedLine(msgspec.Struct, frozen=True, rename="camel"):
    """A connection for programs.

    `servicePort` and `frontend` are "" when --to named an address. `endpoint` is null when the
    destination was not translated, `node` "" and `onThisNode` null when it is not known where it
    runs, `sourceRewrittenTo` null when the endpoint sees the client's own address and port.

    `outcome` says of a new connection whether it was answered: `answered`, `refused`,
    `unanswered`, `forgotten`, `waiting`; it is "" for what failed. `reject` and `drop` are what
    the rules do with it, for a `reason` that is described by `why`; `endpoint` is "" then.

    `failure` is "" for a new connection; `refused` or `unanswered` when an endpoint failed some,
    which are retried, and `gone` when they were reset: so many `times`. Their `client` is an
    address, and their `endpoint` "" when it is not known.
    """

    time: str
    ip_family: str
    protocol: str
    service_port: str
    client: str
    frontend: str
    destination: str
    endpoint: str | None
    node: str
    on_this_node: bool | None
    source_rewritten_to: str | None
    failure: str = ""
    times: int = 1
    outcome: str = ""
    reason: str = ""
    why: str = ""


def json_lines(traced: Shown, at: datetime) -> Iterator[str]:
    """As `Columns.lines`, for programs."""
    yield json_line(traced, at)


def json_line(traced: Shown, at: datetime) -> str:
    """The connection, or what failed, as a JSON object; times are UTC."""
    if isinstance(traced, Failed):
        return _failed_line(traced)
    if isinstance(traced, Refusal):
        return _refused_line(traced, at)
    detail = traced.detail
    line = TracedLine(
        time=_utc(at),
        ip_family=traced.ip_family,
        protocol=traced.watched.port.protocol,
        service_port=traced.watched.name,
        client=traced.client,
        frontend=traced.frontend.kind,
        destination=traced.destination,
        endpoint=traced.endpoint,
        node=detail.node if detail else "",
        on_this_node=detail.on_this_node if detail else None,
        source_rewritten_to=traced.seen if traced.seen != traced.client else None,
        outcome=traced.outcome.name.lower(),
    )
    return msgspec.json.encode(line).decode()


def _refused_line(refused: Refusal, at: datetime) -> str:
    line = TracedLine(
        time=_utc(at),
        ip_family=refused.ip_family,
        protocol=refused.watched.port.protocol,
        service_port=refused.watched.name,
        client=refused.client,
        frontend=refused.frontend.kind,
        destination=refused.destination,
        endpoint="",
        node="",
        on_this_node=None,
        source_rewritten_to=None,
        outcome=refused.verdict,
        reason=refused.reason,
        why=refused.why,
    )
    return msgspec.json.encode(line).decode()


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _failed_line(failed: Failed) -> str:
    reported, detail = failed.reported, failed.detail
    line = TracedLine(
        time=reported.time,
        ip_family=reported.ip_family,
        protocol=reported.protocol,
        service_port=failed.watched.name,
        client=reported.client,
        frontend=failed.frontend.kind,
        destination=reported.destination,
        endpoint=reported.endpoint,
        node=detail.node if detail else "",
        on_this_node=detail.on_this_node if detail else None,
        source_rewritten_to=None,
        failure=reported.reason,
        times=reported.times,
    )
    return msgspec.json.encode(line).decode()


_COLUMNS: Final = (
    Column("TIME", leaves=1),
    Column("PROTO", leaves=3),
    Column("SERVICE PORT", least=12, names=True),
    Column("CLIENT", least=12, names=True),
    Column("FRONTEND", leaves=5),
    Column("DIALLED", least=12, names=True),
    Column("ENDPOINT", least=12, names=True),
    Column("NODE", least=6, leaves=4),
    Column("MASQUERADED", leaves=6),
    Column("ANSWER", least=10),
)
_SERVICE_PORT: Final = 2
# As wide as IPv4 needs, so that few lines stand out of line.
_ROOMY: Final = (12, 5, 12, 21, 13, 21, 21, 9, 24, 8)
_TIGHT: Final = (12, 5, 12, 16, 10, 15, 15, 9, 11, 8)


class Columns:
    """Lines under a header. A column becomes as wide as its widest text so far.

    `names` are those of the service ports; they are shown where there are several. In a terminal,
    columns give way to fit, and the header is repeated when others are shown than before.
    """

    def __init__(self, names: Collection[str], display: Display) -> None:
        several = len(names) > 1
        self._shown = [n for n in range(len(_COLUMNS)) if several or n != _SERVICE_PORT]
        self._columns = [_COLUMNS[n] for n in self._shown]
        self._display = display
        self._widths = self._of_shown(_ROOMY)
        if several:
            self._widths[_SERVICE_PORT] = max(12, *map(len, names))
        room = display.width
        if room is not None and sum(self._widths) + len(GAP) * len(self._widths) > room:
            self._widths = self._of_shown(_TIGHT)
        self._kept: list[int] = []

    def header(self) -> str:
        """The names of the columns."""
        titles = tuple(Span(column.title, Style.BOLD) for column in self._columns)
        self._kept, line = self._fitted(titles)
        return self._painted(line, Style.BOLD)

    def lines(self, traced: Shown, at: datetime) -> Iterator[str]:
        """The connection, or what failed, at local time; the header before it, if need be."""
        if isinstance(traced, Failed):
            texts, style = _failed(traced, at), Style.YELLOW
        elif isinstance(traced, Refusal):
            texts, style = _refused(traced, at), Style.RED
        else:
            texts, style = _connection(traced, at), _style(traced)
        row = tuple(map(Span, self._of_shown(texts)))
        self._widths = [max(w, len(span.text)) for w, span in zip(self._widths, row, strict=True)]
        kept, line = self._fitted(row)
        if kept != self._kept:
            yield self.header()
        yield self._painted(line, style)

    def _of_shown(self, values: Sequence[T]) -> list[T]:
        return [values[place] for place in self._shown]

    def _fitted(self, row: Line) -> tuple[list[int], Line]:
        return fitted_row(self._columns, self._widths, row, self._display.width)

    def _painted(self, line: Line, style: Style) -> str:
        text = "".join(span.text for span in line).rstrip()
        return painted((Span(text, style),), self._display)


def _connection(traced: Traced, at: datetime) -> list[str]:
    return [
        _clock(at),
        traced.watched.port.protocol,
        traced.watched.name or UNKNOWN,
        traced.client,
        traced.frontend.kind or "-",
        traced.destination,
        traced.endpoint or NOT_TRANSLATED,
        _node(traced),
        "no" if traced.seen == traced.client else f"as {traced.seen}",
        traced.outcome.value,
    ]


def _style(traced: Traced) -> Style:
    if traced.endpoint is None or traced.outcome is Outcome.REFUSED:
        return Style.RED
    return Style.PLAIN if traced.outcome is Outcome.ANSWERED else Style.YELLOW


def _refused(refused: Refusal, at: datetime) -> list[str]:
    return [
        _clock(at),
        refused.watched.port.protocol,
        refused.watched.name,
        refused.client,
        refused.frontend.kind,
        refused.destination,
        refused.what,
        "-",
        "-",
        refused.why,
    ]


def _failed(failed: Failed, at: datetime) -> list[str]:
    reported = failed.reported
    return [
        _clock(datetime.fromisoformat(reported.time).astimezone(at.tzinfo)),
        reported.protocol,
        failed.watched.name or UNKNOWN,
        reported.client,
        failed.frontend.kind or "-",
        reported.destination,
        reported.endpoint or UNKNOWN,
        _place(failed.detail),
        "-",
        failed.what,
    ]


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def _node(traced: Traced) -> str:
    return "-" if traced.endpoint is None else _place(traced.detail)


def _place(detail: EndpointDetail | None) -> str:
    if detail is None:
        return UNKNOWN
    return "this node" if detail.on_this_node else detail.node or ELSEWHERE
