"""What a dataplane wrote, as text. Not every dataplane can show it."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kubeproxy.table.entries import ServicePortName, Table


@runtime_checkable
class Shows(Protocol):
    """A dataplane that can show what it wrote last."""

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        """What was written for these service ports, in the syntax of the kernel's own tools.

        "" when that is nothing, or unknown because a sync is running. `table` is the one that was
        applied last.
        """
        ...
