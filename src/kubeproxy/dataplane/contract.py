"""What the sync loop asks of a dataplane, and what it returns; and what only some can do.

Whether one can, `isinstance` says: `Counting`, `Counts`, `Heals`, `Offloads` and `Shows` are
protocols of their own.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.failures import Failure
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import Backend, Entry, Frontend, ServicePortName, Table
from kubeproxy.table.node import NodeView


class Update(msgspec.Struct, frozen=True):
    """How the kernel should be from now on.

    `table` and `node` are all of it; `changes` is what became different since the last update
    that succeeded. `again` are entries that the last report named as failed. When `full` is set
    the kernel's state is not known: it has to be read and compared with everything.
    """

    table: Table
    node: NodeView
    changes: Changes
    full: bool
    again: tuple[Entry, ...] = ()


class EntryChange(NamedTuple):
    """A service port before and after a change; None where there is none."""

    before: Entry | None
    after: Entry | None


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


class FastPathState(msgspec.Struct, frozen=True):
    """How the fast path is, past the rules of the mode.

    `reason` is a word for why it is off, "" when it is on; `why_not` says more, in a sentence.
    `devices` take part, those in `left_out` cannot. Connections take it after so many `packets`.
    """

    wanted: bool
    reason: str
    why_not: str = ""
    devices: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    packets: int = 0

    @property
    def on(self) -> bool:
        """Whether connections take it."""
        return not self.reason


class FastPath(Protocol):
    """A fast path for established connections, of all families; a task of its own keeps it."""

    @property
    def state(self) -> FastPathState:
        """How it is now."""
        ...

    def connections(self) -> Mapping[Family, int]:
        """How many connections of each family take it; reads the kernel: call it in a thread.

        None are named while it is off.
        """
        ...

    async def run(self) -> None:
        """Keep it as it should be, until cancelled; where it is not wanted, see that it is off."""
        ...


Lost = Callable[[Writer | None], None]
"""Is told that others changed what was programmed, and which process did, if that is known."""


class Dataplane(Protocol):
    """One IP family in one mode.

    `apply` makes the kernel as the update says. Doing it twice changes nothing. It raises
    `KernelError` when nothing, or an unknown part, was programmed: the next update is then full.
    """

    async def apply(self, update: Update) -> SyncReport:
        """Make the kernel as the update says."""
        ...

    async def watch(self, lost: Lost) -> None:
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


Target = Frontend | Backend


class Count(NamedTuple):
    """One of the kernel's counters, and what it counts connections of.

    `counter` identifies it: another one has started at zero. `value` is None when it could not be
    read this time, because it was added or removed meanwhile.
    """

    target: Target
    counter: Hashable
    value: int | None


class ConnectionCounts(NamedTuple):
    """The counters of all service ports that are programmed, service port by service port.

    When `epoch` differs from before, every counter has started at zero since.
    """

    epoch: int
    counts: Iterable[tuple[ServicePortName, Sequence[Count]]]


@runtime_checkable
class Counts(Protocol):
    """A dataplane that counts connections."""

    def connections(self) -> ConnectionCounts | None:
        """Read the counters; call it in a thread, because it may take long.

        None while it is not known what is programmed. `KernelError` when they cannot be read.
        """
        ...


@runtime_checkable
class Heals(Protocol):
    """A dataplane that notices which endpoints fail connections."""

    async def failures(self, notify: Callable[[Sequence[Failure]], None]) -> None:
        """Call `notify` with the failures since the last time, until cancelled."""
        ...


@runtime_checkable
class Offloads(Protocol):
    """A dataplane with a fast path; those of all families share it."""

    @property
    def fast_path(self) -> FastPath | None:
        """It; None where there is none after all."""
        ...


@runtime_checkable
class Shows(Protocol):
    """A dataplane that can show what it wrote last."""

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        """What was written for these service ports, in the syntax of the kernel's own tools.

        "" when that is nothing, or unknown because a sync is running. `table` is the one that was
        applied last.
        """
        ...
