"""Pictures of traffic: bars, time lines and tables, as wide as the screen has room."""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from demo.cluster import Frontend, Pod
from demo.screen import Screen
from demo.traffic import Client, Tally

COLOURS = ("cyan", "magenta", "yellow")


def _grid(*justify: str) -> Table:
    table = Table.grid(padding=(0, 2))
    for each in justify:
        table.add_column(justify="right" if each == "right" else "left", no_wrap=True)
    return table


def _rest(screen: Screen, tally: Tally) -> int:
    """The columns that are left beside the description of a pod and a number."""
    described = max(len(f"{pod.name}  {pod.address}  {pod.node}") for pod in tally.pods)
    return screen.width - described - 12


def bars(screen: Screen, tally: Tally) -> Table:
    """How many connections each pod answered."""
    answers = tally.answers
    scale = _rest(screen, tally) / (max(answers.values(), default=0) or 1)
    table = _grid("left", "left", "left", "right", "left")
    for pod, colour in zip(tally.pods, COLOURS, strict=False):
        bar = screen.glyphs.bar * int(answers[pod] * scale)
        table.add_row(pod.name, pod.address, pod.node, str(answers[pod]), Text(bar, style=colour))
    return table


def time_line(screen: Screen, tally: Tally, expected: int) -> Table:
    """The share of each pod over time, in which so many batches are expected."""
    room = _rest(screen, tally)
    group = -(-max(expected, len(tally.history)) // room)
    columns = [
        sum(tally.history[at : at + group], Counter())
        for at in range(0, len(tally.history), group)
    ]
    table = _grid("left", "left", "left", "right", "left")
    answers = tally.answers
    for pod, colour in zip(tally.pods, COLOURS, strict=False):
        line = "".join(_level(screen, column, pod) for column in columns)
        table.add_row(pod.name, pod.address, pod.node, str(answers[pod]), Text(line, style=colour))
    return table


def _level(screen: Screen, column: Counter[Pod], pod: Pod) -> str:
    """One step of a time line: half of the connections or more fill it."""
    if not column[pod]:
        return screen.glyphs.nothing
    levels = screen.glyphs.levels
    share = min(1.0, 2 * column[pod] / column.total())
    return levels[round(share * (len(levels) - 1))]


def visits(answered: Mapping[Client, Sequence[Pod | None]], rows: int) -> Table:
    """Which pod each client got, connection by connection; the first clients only."""
    table = _grid("left", "left")
    colours: dict[Pod | None, str] = {}
    for client, pods in list(answered.items())[:rows]:
        line = Text()
        for pod in pods:
            colour = colours.setdefault(pod, (*COLOURS, "red")[min(len(colours), 3)])
            line.append(f"{pod.name if pod else 'no pod'} ", style=colour)
        table.add_row(f"client {client.address}", line)
    return table


def counted(
    frontends: Sequence[Frontend], kernel: Mapping[Frontend, int], made: Mapping[Frontend, int]
) -> Table:
    """Connections of each frontend, as the kernel counted them and as we made them."""
    table = _grid("left", "left", "left", "right", "right")
    table.add_row(
        *(Text(word, style="dim") for word in ("service", "frontend", "", "counted", "made"))
    )
    for each in frontends:
        table.add_row(
            each.service, each.kind, str(each), f"{kernel[each]:,}", f"{made.get(each, 0):,}"
        )
    return table


def wrapped(screen: Screen, text: str, label: int) -> Text:
    """Lines that begin with labels, wrapped so that labels stand alone."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += textwrap.wrap(line, screen.width, subsequent_indent=" " * label) or [""]
    return Text("\n".join(lines))
