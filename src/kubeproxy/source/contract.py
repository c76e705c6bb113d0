"""What the daemon asks of a source."""

from collections.abc import Callable
from typing import Protocol

from kubeproxy.source.events import Event


class Source(Protocol):
    """Where the cluster's state comes from."""

    async def run(self, deliver: Callable[[Event], None]) -> None:
        """Deliver what happens, for each kind in order, until cancelled."""
        ...
