"""How the state of the running daemon is read, and by how many requests at a time."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import FastPath
from kubeproxy.serve.status.state import State

if TYPE_CHECKING:
    from kubeproxy.serve.traffic.traffic import Traffic

AT_ONCE: Final = 4
"""Answers that are made at the same time for clients of ports; other requests wait."""


class Live(msgspec.Struct, frozen=True):
    """The running daemon, for reading only, and in the event loop only.

    `state` takes a snapshot. `traffic` is None where the mode counts no connections. It is read in
    a thread; one request at a time does so, which leaves the other threads to the syncs. So it is
    with the connections of `fast_path`, which is None where the mode has none.
    """

    state: Callable[[], State]
    traffic: "Traffic | None" = None
    fast_path: FastPath | None = None
    one_reader: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    a_few: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def counted(self) -> State:
        """The state now, with the connections of services, and those on the fast path."""
        if self.traffic is None:
            return self.state()
        async with self.one_reader:
            looks = await asyncio.to_thread(self.traffic.windows)
            on_fast_path = await self._on_fast_path()
        state = self.state()
        families = {
            family: msgspec.structs.replace(each, look=looks.get(family))
            for family, each in state.families.items()
        }
        return msgspec.structs.replace(state, families=families, on_fast_path=on_fast_path)

    async def daemon(self) -> State:
        """The state now, with the connections on the fast path and no others."""
        if self.fast_path is None:
            return self.state()
        async with self.one_reader:
            on_fast_path = await self._on_fast_path()
        return msgspec.structs.replace(self.state(), on_fast_path=on_fast_path)

    async def _on_fast_path(self) -> Mapping[Family, int]:
        if self.fast_path is None or not self.fast_path.state.on:
            return {}
        try:
            return await asyncio.to_thread(self.fast_path.connections)
        except KernelError:
            return {}  # it changes faster than it can be listed
