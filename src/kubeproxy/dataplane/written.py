"""What a dataplane that remembers what it wrote can tell, beside what every dataplane must do."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from kubeproxy.table.entries import ServicePortName, Table


@runtime_checkable
class Shows(Protocol):
    """A dataplane that can show what it wrote last."""

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        """What the kernel was given for these service ports, in the words of its own tools.

        "" when that is nothing, or not known because a sync is under way. `table` is the one that
        was applied last.
        """
        ...
