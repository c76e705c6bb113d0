"""Connections that several nodes see, as they print them -> rows under one header."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from kubeproxy.tools.kubectl.podnames import PodNames, with_names
from kubeproxy.tools.layout import Column, Span, Style, fitted_row
from kubeproxy.tools.trace.connections import UNKNOWN
from kubeproxy.tools.trace.lines import TracedLine
from kubeproxy.tools.trace.outcomes import Outcome
from kubeproxy.tools.trace.refusals import WORDS

COLUMNS: Final = (
    Column("TIME", leaves=2),
    Column("SEEN BY", least=6, leaves=1),
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
_WIDTHS: Final = (12, 7, 5, 12, 24, 13, 21, 24, 9, 11, 0)
_ANSWERS: Final = {each.name.lower(): each.value for each in Outcome}
_RED: Final = {"refused"}
_YELLOW: Final = {"unanswered", "forgotten", "waiting"}


class SeenLine(TracedLine, frozen=True, rename="camel", kw_only=True):
    """A connection for programs, and the node that saw it."""

    seen_by: str


def seen(traced: TracedLine, node: str) -> bytes:
    """The connection as a JSON object."""
    fields = msgspec.structs.asdict(traced)
    return msgspec.json.encode(SeenLine(seen_by=node, **fields))


class Rows:
    """Rows under a header. A column becomes as wide as its widest text so far.

    In a terminal, which has a width, columns give way to fit.
    """

    def __init__(self, names: PodNames, zone: tzinfo | None, width: int | None = None) -> None:
        self._names = names
        self._zone = zone
        self._room = width
        self._widths = [len(each.title) for each in COLUMNS] if width else list(_WIDTHS)
        self._kept: list[int] = []

    def header(self) -> Span:
        """The names of the columns."""
        kept, header = self._aligned([column.title for column in COLUMNS], Style.BOLD)
        self._kept = kept
        return header

    def rows(self, traced: TracedLine, node: str) -> Iterator[Span]:
        """A connection, or what failed; before it the header, if other columns are shown."""
        kept, row = self._aligned(self._texts(traced, node), _style(traced))
        if kept != self._kept:
            yield self.header()
        yield row

    def _texts(self, traced: TracedLine, node: str) -> Sequence[str]:
        """The cells, with the names of pods."""
        at = datetime.fromisoformat(traced.time).astimezone(self._zone)
        refused = WORDS.get(traced.outcome, "")
        what, answer = _rewritten(traced), traced.why if refused else _answer(traced.outcome)
        if traced.failure:
            times = f" ({traced.times} times)" if traced.times > 1 else ""
            what, answer = "-", f"{traced.failure}{times}"
        place = "this node" if traced.on_this_node else traced.node or "?"
        return (
            f"{at:%H:%M:%S}.{at.microsecond // 1000:03}",
            node,
            traced.protocol,
            traced.service_port or "?",
            self._named(traced.client),
            traced.frontend or "-",
            traced.destination,
            refused or self._named(traced.endpoint or "not translated"),
            place if traced.endpoint else "-",
            what,
            answer,
        )

    def _named(self, text: str) -> str:
        return with_names(text, self._names)

    def _aligned(self, texts: Sequence[str], style: Style) -> tuple[list[int], Span]:
        self._widths = list(map(max, self._widths, map(len, texts)))
        row = tuple(map(Span, texts))
        kept, line = fitted_row(COLUMNS, self._widths, row, self._room)
        return kept, Span("".join(span.text for span in line).rstrip(), style)


def _rewritten(traced: TracedLine) -> str:
    if traced.outcome in WORDS:
        return "-"
    return f"as {traced.source_rewritten_to}" if traced.source_rewritten_to else "no"


def _answer(outcome: str) -> str:
    return _ANSWERS.get(outcome, outcome or UNKNOWN)


def _style(traced: TracedLine) -> Style:
    if traced.failure or traced.outcome in _YELLOW:
        return Style.YELLOW
    return Style.RED if traced.outcome in _RED or not traced.endpoint else Style.PLAIN
