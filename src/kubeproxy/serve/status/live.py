"""How the state of the running daemon is read, and by how many requests at a time."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from kubeproxy.serve.status.state import State

if TYPE_CHECKING:
    from kubeproxy.serve.traffic.traffic import Traffic

AT_ONCE: Final = 4
"""Answers that are made at the same time for clients of ports; other requests wait."""


class Live(msgspec.Struct, frozen=True):
    """The running daemon, for reading only, and in the event loop only.

    `state` takes a snapshot. `traffic` is None where the mode counts no connections. It is read in
    a thread; one request at a time does so, which leaves the other threads to the syncs.
    """

    state: Callable[[], State]
    traffic: "Traffic | None" = None
    one_reader: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    a_few: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def counted(self) -> State:
        """The state now, with the connections of services."""
        if self.traffic is None:
            return self.state()
        async with self.one_reader:
            looks = await asyncio.to_thread(self.traffic.windows)
        state = self.state()
        families = {
            family: msgspec.structs.replace(each, look=looks.get(family))
            for family, each in state.families.items()
        }
        return msgspec.structs.replace(state, families=families)
