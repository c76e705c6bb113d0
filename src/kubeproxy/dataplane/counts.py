"""What a dataplane that counts connections can tell, beside what every dataplane must do.

nftables and ipvs mode count; iptables mode does not. Who wants to know asks `isinstance(dataplane,
Counts)`.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kubeproxy.table.entries import Backend, Frontend, ServicePortName

Target = Frontend | Backend


class Count(NamedTuple):
    """One of the kernel's counters, and what it counts connections of.

    `counter` names it: one of another name has begun at zero. `value` is None when it could not
    be read this time, because it came or went meanwhile.
    """

    target: Target
    counter: Hashable
    value: int | None


class Reading(NamedTuple):
    """The counters of all service ports that are programmed, service port by service port.

    When `epoch` is another than before, every counter has begun at zero since.
    """

    epoch: int
    counts: Iterable[tuple[ServicePortName, Sequence[Count]]]


@runtime_checkable
class Counts(Protocol):
    """A dataplane that counts connections."""

    def connections(self) -> Reading | None:
        """Read the counters. It may take a while, and is meant to be called in a thread.

        None when it is not known at the moment what is programmed. `KernelError` when they cannot
        be read.
        """
        ...
