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
        rewritten = traced.source_rewritten_to
        what = f"as {rewritten}" if rewritten else "no"
        style = Style.YELLOW if traced.outcome in _YELLOW else Style.PLAIN
        if traced.outcome in _RED or not traced.endpoint:
            style = Style.RED
        answer = Outcome[traced.outcome.upper()].value if traced.outcome else UNKNOWN
        if traced.failure:
            times = f" ({traced.times} times)" if traced.times > 1 else ""
            what, answer, style = "-", f"{traced.failure}{times}", Style.YELLOW
        place = "this node" if traced.on_this_node else traced.node or "?"
        texts = (
            f"{at:%H:%M:%S}.{at.microsecond // 1000:03}",
            node,
            traced.protocol,
            traced.service_port or "?",
            self._named(traced.client),
            f"{traced.frontend} {traced.destination}".lstrip(),
            self._named(traced.endpoint or "not translated"),
            place if traced.endpoint else "-",
            what,
            answer,
        )
        return self._aligned(texts, style)

    def _named(self, text: str) -> str:
        return with_names(text, self._names)

    def _aligned(self, texts: Sequence[str], style: Style) -> Span:
        self._widths = list(map(max, self._widths, map(len, texts)))
        padded = (f"{text:{width}}" for text, width in zip(texts, self._widths, strict=True))
        return Span("  ".join(padded).rstrip(), style)
