"""Which endpoint a client has: pins are made by packets, and forgotten with their service."""

import asyncio
import errno
from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.nftables.batch import element_messages, encoded
from kubeproxy.dataplane.nftables.dump import read_elements
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.inspect import dump_set
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.names import PINS, SHARED_PINS
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.dataplane.nftables.state import Programmed
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.nfnetlink import Nfnetlink

_NUMBER = Struct("=I")
_KEY_AT = 8
_AT_ONCE = 5000

RETRY_SECONDS = 5.0


def stale_pins(pins: Iterable[bytes], placed: Iterable[Placed]) -> list[bytes]:
    """The heads of pins of services that are gone, or have session affinity no more.

    Others are never deleted from here: packets do that, and may have written one again since it
    was read.
    """
    numbers = {each.number for each in placed if each.number}
    return [head for head in pins if _NUMBER.unpack_from(head, _KEY_AT)[0] not in numbers]


def read_pins(kernel: Nfnetlink, program: Program, name: str) -> dict[bytes, bytes]:
    """The pins of a map."""
    with decoding(f"cannot read the pins of clients in {name}"):
        return read_elements(dump_set(kernel, program, name))


def delete_pins(kernel: Nfnetlink, program: Program, name: str, heads: Iterable[bytes]) -> int:
    """Delete pins, some of which may be gone already; how many transactions it took, 0 or 1.

    If some are gone, each is deleted with a message of its own: the kernel says which these are.
    """
    elements = [encoded(head) for head in heads]
    deleting = partial(element_messages, program, name, delete=True)
    messages = deleting(elements)
    alone = len(elements) == len(messages)
    while messages:
        try:
            kernel.commit(messages)
        except Refused as error:
            if any(each.errno != errno.ENOENT or each.index < 0 for each in error.errors):
                raise
            if alone:
                gone = {each.index for each in error.errors}
                messages = [each for at, each in enumerate(messages) if at not in gone]
            else:
                messages = [each for element in elements for each in deleting([element])]
                alone = True
        else:
            return 1
    return 0


class Pins:
    """Forgets the pins of services that one family has no more: beside the syncs, never in them.

    A full map takes the better part of a second. `current` is what is programmed; None while a
    full sync is under way, which makes it due again when it ends. The socket is opened when it is
    first needed, and kept: a process that has no descriptor to spare later can still forget.
    """

    def __init__(self, guard: TableGuard, current: Callable[[], Programmed | None]) -> None:
        self._guard = guard
        self._current = current
        self._due = asyncio.Event()
        self._kernel: Nfnetlink | None = None

    def forget(self) -> None:
        """A service left, or has session affinity no more: there may be pins of it."""
        self._due.set()

    async def run(self) -> None:
        """Forget whenever that is due, until cancelled."""
        try:
            while True:
                await self._due.wait()
                try:
                    await self.settle()
                except KernelError as error:
                    klog.error("Stale affinity pins cannot be deleted, will try again", err=error)
                    self._due.set()
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Give the socket back."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None

    async def settle(self) -> None:
        """Forget what is due now.

        A packet that looked up a pin may write it once more when it has been deleted, and one from
        a shared place does so under its own client as soon as there is room: hence this order, and
        again until there are none.
        """
        if not self._due.is_set():
            return
        self._due.clear()
        kernel = self._kernel = self._kernel or Nfnetlink()
        deleted = -1
        while deleted:
            deleted = 0
            for name in (*SHARED_PINS.values(), *PINS.values()):
                deleted += await self._forget(kernel, name)
            if deleted:
                klog.info("Deleted stale affinity pins", v=2, pins=deleted)

    async def _forget(self, kernel: Nfnetlink, name: str) -> int:
        """Forget the stale pins of a map; how many there were."""
        state = self._current()
        if state is None:
            return 0
        program = state.program
        pins = await asyncio.to_thread(read_pins, kernel, program, name)
        # Asked after the pins were read: a client of a service that came meanwhile keeps its pin.
        state = self._current()
        if state is None:
            return 0
        placed = tuple(state.placed.values())  # a thread must not see them change
        stale = await asyncio.to_thread(stale_pins, pins, placed)
        for start in range(0, len(stale), _AT_ONCE):
            heads = stale[start : start + _AT_ONCE]
            async with self._guard.paused(kernel):
                count = await asyncio.to_thread(delete_pins, kernel, program, name, heads)
                self._guard.committed(count)
        return len(stale)
