"""The kernel's table of tracked connections: how full it is, and what was lost. Values only."""

from enum import IntEnum
from typing import Final

import msgspec

NEARLY_FULL: Final = 0.9


class Level(IntEnum):
    """How full the table is. When it is full, packets of new connections are dropped."""

    ROOM = 0
    NEARLY_FULL = 1
    FULL = 2


class ConntrackUse(msgspec.Struct, frozen=True, gc=False):
    """Tracked connections, and how many there may be; a limit of 0 is none.

    `insert_failures` and `drops` count since the network namespace was made: connections that
    could not be added, and packets that were dropped because theirs could not be tracked.
    """

    entries: int
    limit: int
    insert_failures: int = 0
    drops: int = 0

    @property
    def fill(self) -> float:
        """The used part of the table, 1.0 when it is full."""
        return self.entries / self.limit if self.limit else 0.0

    @property
    def level(self) -> Level:
        """How full it is."""
        if self.fill >= 1.0:
            return Level.FULL
        return Level.NEARLY_FULL if self.fill >= NEARLY_FULL else Level.ROOM


class Lost(msgspec.Struct, frozen=True, gc=False):
    """What was lost within the last minute."""

    insert_failures: int = 0
    drops: int = 0


def lost_between(first: ConntrackUse, last: ConntrackUse) -> Lost:
    """What was lost from one reading to the other."""
    return Lost(last.insert_failures - first.insert_failures, last.drops - first.drops)


def column_sums(text: str) -> dict[str, int]:
    """The columns of /proc/net/stat: a head, and a row of hexadecimal numbers a processor."""
    head, *rows = text.splitlines() or [""]
    values = [[int(value, 16) for value in row.split()] for row in rows]
    return dict(zip(head.split(), map(sum, zip(*values, strict=True)), strict=False))
