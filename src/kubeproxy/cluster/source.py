"""What the daemon asks of a source."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Event

Write = Callable[[str, str, bytes, str], Awaitable[Status | None]]
"""Sends method, path, body and content type; what the cluster has against it, None if nothing."""


class Gap(msgspec.Struct, frozen=True):
    """Something that a source cannot tell of at the moment, why, and for how many seconds.

    `seconds` is None where it is not known.
    """

    what: str
    reason: str
    seconds: float | None = None


class Source(Protocol):
    """Where the cluster's state comes from."""

    async def run(self, deliver: Callable[[Event], None]) -> None:
        """Deliver what happens, for each kind in order, until cancelled."""
        ...

    def gaps(self) -> Sequence[Gap]:
        """What it cannot tell of now: what was told before may be old."""
        ...

    @property
    def write(self) -> Write | None:
        """How to tell the cluster something while `run` is under way; None when nobody hears."""
        ...
