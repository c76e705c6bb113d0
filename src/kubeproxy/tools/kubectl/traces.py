"""Connections that several nodes see, as they print them -> rows under one header."""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from kubeproxy.tools.kubectl.podnames import PodNames, with_names
from kubeproxy.tools.layout import Span, Style
from kubeproxy.tools.trace.connections import UNKNOWN
from kubeproxy.tools.trace.lines import TracedLine
from kubeproxy.tools.trace.outcomes import Outcome
from kubeproxy.tools.trace.refusals import WORDS

HEADER: Final = (
    *("TIME", "SEEN BY", "PROTO", "SERVICE PORT", "CLIENT", "DIALLED", "ENDPOINT", "NODE"),
    *("MASQUERADED", "ANSWER"),
)
_WIDTHS: Final = (12, 7, 5, 12, 24, 31, 24, 9, 11, 0)
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
    """Rows under a header. A column becomes as wide as its widest text so far."""

    def __init__(self, names: PodNames, zone: tzinfo | None) -> None:
        self._names = names
        self._zone = zone
        self._widths = list(_WIDTHS)

    def header(self) -> Span:
        """The names of the columns."""
        return self._aligned(HEADER, Style.BOLD)

    def row(self, traced: TracedLine, node: str) -> Span:
        """A connection, or what failed, with the names of pods."""
        at = datetime.fromisoformat(traced.time).astimezone(self._zone)
        refused = WORDS.get(traced.outcome, "")
        what, answer = _rewritten(traced), traced.why if refused else _answer(traced.outcome)
        if traced.failure:
            times = f" ({traced.times} times)" if traced.times > 1 else ""
            what, answer = "-", f"{traced.failure}{times}"
        place = "this node" if traced.on_this_node else traced.node or "?"
        texts = (
            f"{at:%H:%M:%S}.{at.microsecond // 1000:03}",
            node,
            traced.protocol,
            traced.service_port or "?",
            self._named(traced.client),
            f"{traced.frontend} {traced.destination}".lstrip(),
            refused or self._named(traced.endpoint or "not translated"),
            place if traced.endpoint else "-",
            what,
            answer,
        )
        return self._aligned(texts, _style(traced))

    def _named(self, text: str) -> str:
        return with_names(text, self._names)

    def _aligned(self, texts: Sequence[str], style: Style) -> Span:
        self._widths = list(map(max, self._widths, map(len, texts)))
        padded = (f"{text:{width}}" for text, width in zip(texts, self._widths, strict=True))
        return Span("  ".join(padded).rstrip(), style)


def _rewritten(traced: TracedLine) -> str:
    if traced.outcome in WORDS:
        return "-"
    return f"as {traced.source_rewritten_to}" if traced.source_rewritten_to else "no"


def _answer(outcome: str) -> str:
    return Outcome[outcome.upper()].value if outcome else UNKNOWN


def _style(traced: TracedLine) -> Style:
    if traced.failure or traced.outcome in _YELLOW:
        return Style.YELLOW
    return Style.RED if traced.outcome in _RED or not traced.endpoint else Style.PLAIN
