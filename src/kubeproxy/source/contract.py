"""What the daemon asks of a source."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from kubeproxy.source.events import Event
from kubeproxy.source.status import Status

Write = Callable[[str, str, bytes, str], Awaitable[Status | None]]
"""Sends method, path, body and content type; what the cluster has against it, None if nothing."""


class Source(Protocol):
    """Where the cluster's state comes from."""

    async def run(self, deliver: Callable[[Event], None]) -> None:
        """Deliver what happens, for each kind in order, until cancelled."""
        ...

    @property
    def write(self) -> Write | None:
        """How to tell the cluster something while `run` is under way; None when nobody hears."""
        ...
