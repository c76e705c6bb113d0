"""What the daemon needs of a source of events."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Event

Write = Callable[[str, str, bytes, str], Awaitable[Status | None]]
"""Sends method, path, body and content type; returns why it was refused, None if it was not."""


class Gap(msgspec.Struct, frozen=True):
    """Something that a source cannot read now, why, and for how many seconds.

    `seconds` is None where it is not known.
    """

    what: str
    reason: str
    seconds: float | None = None


class EventSource(Protocol):
    """Where the state of the cluster comes from."""

    async def run(self, deliver: Callable[[Event], None]) -> None:
        """Deliver events, for each kind in order, until cancelled."""
        ...

    def gaps(self) -> Sequence[Gap]:
        """What it cannot read now: the state of that may be stale."""
        ...

    def silence(self) -> float | None:
        """For how many seconds nothing has come; None where that says nothing, as with files."""
        ...

    @property
    def write(self) -> Write | None:
        """How to write to the cluster while `run` is active; None when that is not possible."""
        ...
