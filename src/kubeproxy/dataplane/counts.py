"""Connections that a dataplane counts. Not every mode does: check `isinstance(plane, Counts)`."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kubeproxy.table.entries import Backend, Frontend, ServicePortName

Target = Frontend | Backend


class Count(NamedTuple):
    """One of the kernel's counters, and what it counts connections of.

    `counter` identifies it: another one has started at zero. `value` is None when it could not be
    read this time, because it was added or removed meanwhile.
    """

    target: Target
    counter: Hashable
    value: int | None


class Reading(NamedTuple):
    """The counters of all service ports that are programmed, service port by service port.

    When `epoch` differs from before, every counter has started at zero since.
    """

    epoch: int
    counts: Iterable[tuple[ServicePortName, Sequence[Count]]]


@runtime_checkable
class Counts(Protocol):
    """A dataplane that counts connections."""

    def connections(self) -> Reading | None:
        """Read the counters; call it in a thread, because it may take long.

        None while it is not known what is programmed. `KernelError` when they cannot be read.
        """
        ...
