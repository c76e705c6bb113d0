"""A picture of a terminal: what a program wrote there, with its colours, as SVG."""

import re
from collections.abc import Iterator
from html import escape

_PIECE = re.compile(r"\x1b\[([0-9]*)m|([^\x1b]+)|\x1b\[K")
_COLOURS = {"31": "#e06c75", "32": "#7fbf6a", "33": "#d8a657", "36": "#56b6c2", "2": "#8b949e"}
_PAPER, _INK = "#15191f", "#dfe3e8"
_WIDTH, _HEIGHT, _MARGIN = 7.8, 18, 16


def drawn(command: str, said: str, columns: int) -> str:
    """The command at a prompt, and what was said on a screen so many columns wide."""
    lines = [f"\x1b[2m$\x1b[0m {command}", *said.replace("\r", "").rstrip("\n").split("\n")]
    width = round(columns * _WIDTH + 2 * _MARGIN)
    height = len(lines) * _HEIGHT + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{_PAPER}"/>\n'
        f'<g font-family="ui-monospace, monospace" font-size="13" fill="{_INK}">\n'
    )
    rows = (
        f'<text x="{_MARGIN}" y="{_MARGIN + 13 + number * _HEIGHT}">{"".join(_row(line))}</text>\n'
        for number, line in enumerate(lines)
        if line
    )
    return f"{head}{''.join(rows)}</g>\n</svg>\n"


def _row(line: str) -> Iterator[str]:
    """The pieces of a line, each at its column: not every font has cells of one width."""
    style, column = "", 0
    for match in _PIECE.finditer(line):
        code, text = match.groups()
        if text is None:
            style = code or ""
            continue
        shown = text.lstrip(" ")  # else it would be for the reader to keep spaces
        column += len(text) - len(shown)
        look = f' fill="{_COLOURS[style]}"' if style in _COLOURS else ""
        look += ' font-weight="bold"' if style == "1" else ""
        at = f'x="{_MARGIN + column * _WIDTH:g}" textLength="{len(shown) * _WIDTH:g}"'
        yield f"<tspan {at}{look}>{escape(shown)}</tspan>"
        column += len(shown)
