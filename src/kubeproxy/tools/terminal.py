"""Text for people: lines with styles, columns that fit, and JSON for programs instead.

Lines are values; colours, and the width of the terminal, are added when they are shown. Piped
text is never cut and has no colours.
"""

import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TextIO

import msgspec

from kubeproxy.base.printable import printable
from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import STRING

OUTPUT: Final = Flag(
    "output", STRING, "text", "'text' for people or 'json' for programs.", shorthand="o"
)
GAP: Final = "  "
_CUT: Final = "…"
_WIDEST: Final = 100


class Style(Enum):
    """How a piece of text looks; the values are those of ANSI's SGR."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    REVERSE = "7"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"
    CYAN = "36"


class Span(msgspec.Struct, frozen=True):
    """A piece of a line."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


def line(*parts: str | Span) -> Line:
    """A line of pieces, plain where they are text alone."""
    return tuple(part if isinstance(part, Span) else Span(part) for part in parts)


def prose(
    text: str, width: int | None, indent: str = "", style: Style = Style.PLAIN
) -> list[Line]:
    """Sentences, in as many lines as they need; further lines stand two further in."""
    if width is None or len(indent) + len(text) <= width:
        return [line(indent, Span(text, style))]
    further = indent + "  "
    room = max(width - len(further), 20)
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    return [
        line(further if number else indent, Span(part, style)) for number, part in enumerate(parts)
    ]


# --- columns ----------------------------------------------------------------------------------


class Column(msgspec.Struct, frozen=True):
    """A column of a table. One with a `least` width gives way where room is scarce."""

    title: str
    right: bool = False
    least: int = 0


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Span]], width: int | None
) -> list[Line]:
    """A header and rows with aligned columns; those that may give way do, to fit the width.

    Piped, nothing is cut, and few very long texts do not make every row as long: theirs stand
    out of line.
    """
    lines = [line(*row) for row in rows]
    head = tuple(Span(column.title, Style.BOLD) for column in columns)
    every = [head, *lines]
    widths = [max(len(row[place].text) for row in every) for place in range(len(columns))]
    if width is None:
        widths = [min(each, _WIDEST) for each in widths]
        return [_laid_out(row, columns, widths) for row in every]
    widths = _fitted(columns, widths, width)
    return [_laid_out(_narrowed(row, widths), columns, widths) for row in every]


def _fitted(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The widths, less where that is possible until they fit; the widest gives way first."""
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - room
    for _ in range(excess):
        yielding = [
            place
            for place, column in enumerate(columns)
            if column.least and fitted[place] > column.least
        ]
        if not yielding:
            break
        fitted[max(yielding, key=fitted.__getitem__)] -= 1
    return fitted


def _narrowed(row: Line, widths: Sequence[int]) -> Line:
    return tuple(
        Span(_shortened(span.text, width), span.style)
        for span, width in zip(row, widths, strict=True)
    )


def _laid_out(row: Line, columns: Sequence[Column], widths: Sequence[int]) -> Line:
    spans = []
    for span, column, width in zip(row, columns, widths, strict=True):
        placed = [span, Span(" " * (width - len(span.text)))]
        spans += [*(reversed(placed) if column.right else placed), Span(GAP)]
    while spans and not spans[-1].text.strip():
        spans.pop()
    return tuple(span for span in spans if span.text)


def _shortened(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return text[: width - len(_CUT)] + _CUT


def cut(spans: Line, width: int) -> Line:
    """The line, no longer than the width."""
    if sum(len(span.text) for span in spans) <= width:
        return spans
    if width <= 0:
        return ()
    kept: list[Span] = []
    room = width - len(_CUT)
    for span in spans:
        kept.append(Span(span.text[:room], span.style))
        room -= len(kept[-1].text)
    return (*(span for span in kept if span.text), Span(_CUT))


# --- showing ----------------------------------------------------------------------------------


class Look(msgspec.Struct, frozen=True):
    """What the reader has: a terminal of some width, or None; colours or not."""

    width: int | None = None
    colours: bool = False


def look_of(stream: TextIO, environ: Mapping[str, str]) -> Look:
    """The look of a stream: NO_COLOR and TERM=dumb are heeded, as people expect of tools."""
    if not stream.isatty():
        return Look()
    width = os.get_terminal_size(stream.fileno()).columns
    colours = not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    return Look(width or None, colours)


def painted(spans: Line, look: Look) -> str:
    """The line as it is written. Whatever names are in it do nothing to a terminal."""
    if look.width is not None:
        spans = cut(spans, look.width)
    return "".join(_painted(span, look) for span in spans)


def _painted(span: Span, look: Look) -> str:
    text = printable(span.text)
    if not look.colours or span.style is Style.PLAIN:
        return text
    return f"\x1b[{span.style.value}m{text}\x1b[0m"


def show(lines: Iterable[Line], look: Look, stream: TextIO | None = None) -> None:
    """Print lines for people."""
    for each in lines:
        say(painted(each, look).rstrip(" "), stream)


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text; what the stream's encoding does not have becomes a question mark."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def note(text: str) -> None:
    """Say what is not part of the answer."""
    say(f"note: {printable(text)}", sys.stderr)


# --- programs ---------------------------------------------------------------------------------


def wants_json(parsed: Parsed) -> bool:
    """Whether the flag `OUTPUT` asks for JSON."""
    output = parsed.value("output", str)
    if output not in {"text", "json"}:
        raise UsageError(f"--output {output}: must be text or json", show_usage=False)
    return output == "json"


def show_json(value: object) -> None:
    """Print a value for programs, indented."""
    say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
