"""Text for people as values: lines with styles, sentences that wrap, columns that fit.

Colours, and the width of the terminal, are added when a line is painted. Piped text is never cut
and has no colours.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Final

import msgspec

from kubeproxy.base.printable import printable

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


# --- sentences --------------------------------------------------------------------------------


def wrapped(text: str, width: int, further: str = "") -> list[str]:
    """Lines of whole words, names among them; those after the first begin with `further`."""
    return textwrap.wrap(
        text, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False
    )


def prose(
    text: str, width: int | None, indent: str = "", style: Style = Style.PLAIN
) -> list[Line]:
    """Sentences, in as many lines as they need; further lines stand two further in."""
    if width is None or len(indent) + len(text) <= width:
        return [line(indent, Span(text, style))]
    further = indent + "  "
    parts = wrapped(text, max(width - len(further), 20))
    return [
        line(further if number else indent, Span(part, style)) for number, part in enumerate(parts)
    ]


def fitted(text: str, width: int | None, indent: int) -> Iterator[Line]:
    """The lines of a text; in a terminal they are wrapped, and indented below the text."""
    for each in text.split("\n"):
        if width is None or len(each) <= width:
            yield line(each)
        else:
            yield from map(line, wrapped(each, max(width, 2 * indent), " " * indent))


# --- columns ----------------------------------------------------------------------------------


class Column(msgspec.Struct, frozen=True):
    """A column of a table. One with a `least` width gives way where room is scarce.

    Then those with a `leaves` go, the highest first. What `names` the rows is cut last, in the
    middle, and not so that two names look the same.
    """

    title: str
    right: bool = False
    least: int = 0
    leaves: int = 0
    names: bool = False


def left(*titles: str) -> tuple[Column, ...]:
    """Columns of texts."""
    return tuple(map(Column, titles))


def right(*titles: str) -> tuple[Column, ...]:
    """Columns of figures."""
    return tuple(Column(title, right=True) for title in titles)


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[str | Span]], width: int | None
) -> list[Line]:
    """A header and rows with aligned columns; those that may give way do, to fit the width.

    Piped, nothing is cut, and few very long texts do not make every row as long: theirs stand
    out of line.
    """
    head = line(*(Span(column.title, Style.BOLD) for column in columns))
    lines = [head, *(line(*row) for row in rows)]
    widths = [max(len(span.text) for span in spans) for spans in zip(*lines, strict=True)]
    if width is None:
        widths = [min(each, _WIDEST) for each in widths]
    else:
        kept = _kept(columns, widths, width)
        columns = [columns[place] for place in kept]
        lines = [tuple(each[place] for place in kept) for each in lines]
        widths = _narrowed(columns, [widths[place] for place in kept], width)
        lines = _cells(columns, widths, lines)
    return [_laid_out(each, columns, widths) for each in lines]


def fitted_row(
    columns: Sequence[Column], widths: Sequence[int], row: Line, room: int | None
) -> tuple[list[int], Line]:
    """One row of a table whose other rows are not known, and the places of its columns.

    As in a table, columns whose texts are so wide give way to fit the room.
    """
    kept = list(range(len(columns)))
    if room is not None:
        kept = _kept(columns, widths, room)
        columns = [columns[place] for place in kept]
        widths = _narrowed(columns, [widths[place] for place in kept], room)
        row = tuple(row[place] for place in kept)
        _, row = _cells(columns, widths, [row, row])
    return kept, _laid_out(row, columns, widths)


def _kept(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The places of the columns for which there is room when all have given way."""
    kept = list(range(len(columns)))
    while True:
        least = [
            widths[each]
            if columns[each].names
            else min(columns[each].least or widths[each], widths[each])
            for each in kept
        ]
        leaving = [each for each in kept if columns[each].leaves]
        if not leaving or sum(least) + len(GAP) * (len(kept) - 1) <= room:
            return kept
        kept.remove(max(leaving, key=lambda each: columns[each].leaves))


def _cells(columns: Sequence[Column], widths: Sequence[int], lines: Sequence[Line]) -> list[Line]:
    """The lines with every cell as wide as its column at most."""
    shown = []
    for place, (column, width) in enumerate(zip(columns, widths, strict=True)):
        head, *cells = [each[place] for each in lines]
        if column.names:
            texts = without_middle([span.text for span in cells], width)
            cells = [Span(text, span.style) for text, span in zip(texts, cells, strict=True)]
        shown.append([_shortened(head, width), *(_shortened(span, width) for span in cells)])
    return list(zip(*shown, strict=True))


def without_middle(names: Sequence[str], width: int) -> list[str]:
    """Names of at most that width; what is left out is where they do not differ, if possible."""
    if max(map(len, names), default=0) <= width:
        return list(names)
    room = max(0, width - len(_CUT))
    heads = sorted(range(room + 1), key=lambda head: abs(2 * head - room))
    tried = ([_outer(name, width, head, room - head) for name in names] for head in heads)
    first = next(tried)
    distinct = len(set(names))
    return next((each for each in chain([first], tried) if len(set(each)) == distinct), first)


def _outer(name: str, width: int, head: int, tail: int) -> str:
    if len(name) <= width:
        return name
    return name[:head] + _CUT + name[len(name) - tail :]


def _narrowed(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """The widths, less where that is possible until they fit; the widest gives way first.

    What names the rows gives way when no other can.
    """
    fitting = list(widths)
    excess = sum(fitting) + len(GAP) * (len(fitting) - 1) - room
    for _ in range(excess):
        yielding = [
            place
            for place, column in enumerate(columns)
            if column.least and fitting[place] > column.least
        ]
        others = [place for place in yielding if not columns[place].names]
        yielding = others or yielding
        if not yielding:
            break
        fitting[max(yielding, key=fitting.__getitem__)] -= 1
    return fitting


def _shortened(span: Span, width: int) -> Span:
    if len(span.text) <= width:
        return span
    return Span(span.text[: width - len(_CUT)] + _CUT, span.style)


def _laid_out(row: Line, columns: Sequence[Column], widths: Sequence[int]) -> Line:
    spans = []
    for span, column, width in zip(row, columns, widths, strict=True):
        placed = [span, Span(" " * (width - len(span.text)))]
        spans += [*(reversed(placed) if column.right else placed), Span(GAP)]
    while spans and not spans[-1].text.strip():
        spans.pop()
    return tuple(span for span in spans if span.text)


# --- painting ---------------------------------------------------------------------------------


class Display(msgspec.Struct, frozen=True):
    """What lines are shown on: its width, None when it has none, and whether it has colours."""

    width: int | None = None
    colours: bool = False


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


def painted(spans: Line, display: Display) -> str:
    """The line as it is written. Whatever names are in it do nothing to a terminal."""
    if display.width is not None:
        spans = cut(spans, display.width)
    return "".join(_painted(span, colours=display.colours) for span in spans)


def _painted(span: Span, *, colours: bool) -> str:
    text = printable(span.text)
    if not colours or span.style is Style.PLAIN:
        return text
    return f"\x1b[{span.style.value}m{text}\x1b[0m"
