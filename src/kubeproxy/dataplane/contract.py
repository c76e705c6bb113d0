"""What the sync loop asks of a dataplane, and what it returns."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import Node


class Update(msgspec.Struct, frozen=True):
    """How the kernel should be from now on.

    `table` and `node` are all of it; `changes` is what became different since the last update
    that succeeded. `again` are entries that the last report named as failed. When `full` is set
    the kernel's state is not known: it has to be read and compared with everything.
    """

    table: Table
    node: Node
    changes: Changes
    full: bool
    again: tuple[Entry, ...] = ()


class Rules(msgspec.Struct, frozen=True):
    """How many rules of a table are ours, and how many of them were written."""

    owned: int
    written: int


class SyncReport(msgspec.Struct, frozen=True):
    """What came of an update: the service ports that could not be programmed, with the reason.

    All others are programmed. `written` is how many kernel objects were written. `rules` counts
    those of each table, where there are tables of rules and some were written.
    """

    failed: dict[ServicePortName, str] = {}
    written: int = 0
    rules: Mapping[str, Rules] = {}


class Dataplane(Protocol):
    """One IP family in one mode.

    `apply` makes the kernel as the update says. Doing it twice changes nothing. It raises
    `KernelError` when nothing, or an unknown part, was programmed: the next update is then full.
    """

    async def apply(self, update: Update) -> SyncReport:
        """Make the kernel as the update says."""
        ...

    async def watch(self, lost: Callable[[], None]) -> None:
        """Call `lost` whenever others change what was programmed, until cancelled."""
        ...

    async def close(self) -> None:
        """Give back what is held open. What is programmed stays."""
        ...


@runtime_checkable
class Counting(Protocol):
    """A dataplane with figures for metrics."""

    def figures(self) -> Mapping[str, int]:
        """The values of metrics now, by their names."""
        ...
