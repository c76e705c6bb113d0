"""The stage: what is said, shown and claimed. Live in a terminal, plain lines anywhere else.

Everything stays in the terminal's history, so that it can be read again after the end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 100
TICK = 0.05
INDENT = 3
ROOM = 100
"""Wider than this, lines are harder to read."""


class Glyphs(msgspec.Struct, frozen=True):
    """What bars and marks are drawn with."""

    bar: str = "\u2588"
    levels: str = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
    nothing: str = "\u00b7"
    holds: str = "\u2713"
    fails: str = "\u2717"


ASCII = Glyphs(bar="#", levels=".:-=+*%#", nothing=" ", holds="ok", fails="WRONG")

Show = Callable[[RenderableType], None]


def open_console(*, terminal: bool) -> Console:
    """A console for people at a terminal, or for files and CI."""
    if terminal:
        return Console(highlight=False)
    return Console(highlight=False, force_terminal=False, color_system=None, width=PLAIN_WIDTH)


class Screen:
    """Says and shows things, and keeps count of the claims that did not hold."""

    def __init__(self, console: Console) -> None:
        self.claims = 0
        self.wrong = 0
        self._console = console
        self._acts = 0
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        can_draw = console.encoding.lower().startswith("utf")
        self.glyphs = Glyphs() if can_draw else ASCII

    @property
    def width(self) -> int:
        """How many columns a picture may have."""
        return min(ROOM, self._console.width) - INDENT - 1

    def say(self, text: RenderableType = "") -> None:
        """Print something at the margin."""
        self._console.print(text)

    def act(self, title: str, story: str) -> None:
        """Begin an act."""
        self._acts += 1
        self.say()
        self.say(Text(f"{self._acts}  {title}", style="bold cyan"))
        self.show(Text(story))

    def show(self, picture: RenderableType) -> None:
        """Print something below the title of the act."""
        self._console.print(_indented(picture))

    def command(self, text: str) -> None:
        """Print a command that is run."""
        self.show(_hanging(Text("$", style="bold"), Text(text, style="bold")))

    @contextmanager
    def live(self) -> Iterator[Show]:
        """A picture that changes: shown again and again, or once at its end."""
        if self._is_live:
            with Live(console=self._console, auto_refresh=False) as live:
                yield lambda picture: live.update(_indented(picture), refresh=True)
            return
        last: list[RenderableType] = [""]
        yield lambda picture: last.__setitem__(0, picture)
        self.show(last[0])

    def claim(self, text: str, *, holds: bool, instead: str = "") -> None:
        """Say that something is true, having looked; `instead` is what was seen if it is not."""
        self.claims += 1
        self.wrong += not holds
        mark, style = (
            (self.glyphs.holds, "bold green") if holds else (self.glyphs.fails, "bold red")
        )
        line = Text(text)
        if not holds:
            line.append(f"  NOT TRUE: {instead}" if instead else "  NOT TRUE", style="red")
        self.show(_hanging(Text(mark, style=style), line))

    def ticks(self, seconds: float) -> Iterator[None]:
        """Come round every tick for so long."""
        due = time.monotonic()
        for _ in range(round(seconds / TICK)):
            yield
            due += TICK
            time.sleep(max(0.0, due - time.monotonic()))

    def pause(self, seconds: float) -> None:
        """Time to read, for people."""
        if self._is_live:
            time.sleep(seconds)


def _indented(picture: RenderableType) -> RenderableType:
    return Padding.indent(picture, INDENT)


def _hanging(mark: Text, text: Text) -> RenderableType:
    """A mark, and beside it a text that does not flow below the mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row(mark, text)
    return grid
