"""Which endpoint a client has: pins are made by packets, and forgotten when an endpoint leaves."""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.nftables.batch import element_messages, encoded
from kubeproxy.dataplane.nftables.dump import read_elements
from kubeproxy.dataplane.nftables.elements import backend_data
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.dataplane.nftables.program import PINS, SHARED_PINS
from kubeproxy.dataplane.nftables.state import Programmed
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETSETELEM, set_elements
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Backend

_NUMBER = Struct("=I")
_DATA_AT = 8
_AT_ONCE = 5000

RETRY_SECONDS = 5.0


def stale_pins(pins: Mapping[bytes, bytes], valid: Mapping[int, frozenset[bytes]]) -> list[bytes]:
    """The heads of pins to an endpoint that their service does not choose any more."""
    none: frozenset[bytes] = frozenset()
    return [
        head
        for head, tail in pins.items()
        if tail[_DATA_AT:] not in valid.get(_NUMBER.unpack(head[-4:])[0], none)
    ]


def valid_data(placed: Iterable[Placed], *, local: bool) -> dict[int, frozenset[bytes]]:
    """For each service that keeps its clients, where a pin may lead."""

    def backends(each: Placed) -> tuple[Backend, ...]:
        return each.local if local else each.cluster

    return {
        each.number: frozenset(map(backend_data, backends(each))) for each in placed if each.number
    }


def read_pins(kernel: Nfnetlink, program: Program, name: str) -> dict[bytes, bytes]:
    """The pins of a map."""
    of_map = set_elements(program.table, name)
    with decoding(f"cannot read the pins of clients in {name}"):
        return read_elements(kernel.dump(NFT_MSG_GETSETELEM, NFPROTO[program.family], of_map))


def find_stale(
    pins: Mapping[bytes, bytes], placed: Iterable[Placed], *, local: bool
) -> list[bytes]:
    """The heads of pins that lead nowhere any more."""
    return stale_pins(pins, valid_data(placed, local=local))


def delete_pins(kernel: Nfnetlink, program: Program, name: str, heads: Sequence[bytes]) -> int:
    """Delete pins, some of which may be gone already; how many transactions it took, 0 or 1."""
    elements = [encoded(head) for head in heads]
    try:
        kernel.commit(element_messages(program, name, elements, delete=True))
    except Refused as error:
        if not _are_gone(error):
            raise
        return _delete_each(kernel, program, name, elements)
    return 1


def _delete_each(kernel: Nfnetlink, program: Program, name: str, elements: Sequence[bytes]) -> int:
    """Delete each with a message of its own: the kernel says which are gone."""
    messages = [
        message
        for element in elements
        for message in element_messages(program, name, [element], delete=True)
    ]
    while messages:
        try:
            kernel.commit(messages)
        except Refused as error:
            if not _are_gone(error):
                raise
            timed_out = {each.index for each in error.errors}
            messages = [each for at, each in enumerate(messages) if at not in timed_out]
        else:
            return 1
    return 0


def _are_gone(error: Refused) -> bool:
    return all(each.errno == errno.ENOENT and each.index >= 0 for each in error.errors)


class Pins:
    """Forgets the pins of one family that lead nowhere: beside the syncs, never in them.

    A full map takes the better part of a second. `current` is what is programmed; None while a
    full sync is under way, which makes it due again when it ends. The socket is opened when it is
    first needed, and kept: a process that has no descriptor to spare later can still forget.
    """

    def __init__(self, guard: TableGuard, current: Callable[[], Programmed | None]) -> None:
        self._guard = guard
        self._current = current
        self._due = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        self._runs = False
        self._kernel: Nfnetlink | None = None

    def forget(self) -> None:
        """An endpoint left, or a service: there may be pins to it."""
        self._due.set()
        self._done.clear()

    async def wait_done(self, seconds: float) -> None:
        """Wait until all is forgotten, but no longer than that."""
        if self._runs:
            # Not wait_for: that of Python 3.11 ignores a cancellation in the moment of the end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._done.wait()

    async def run(self) -> None:
        """Forget whenever that is due, until cancelled."""
        self._runs = True
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
            self._runs = False
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
            for maps in (SHARED_PINS, PINS):
                for local, name in maps.items():
                    deleted += await self._forget(kernel, name, local=local)
            if deleted:
                klog.info("Deleted stale affinity pins", v=2, pins=deleted)
        if not self._due.is_set():
            self._done.set()

    async def _forget(self, kernel: Nfnetlink, name: str, *, local: bool) -> int:
        """Forget the stale pins of a map; how many there were."""
        state = self._current()
        if state is None:
            return 0
        program = state.program
        pins = await asyncio.to_thread(read_pins, kernel, program, name)
        # Asked after the pins were read: who has an endpoint that came meanwhile keeps it.
        state = self._current()
        if state is None:
            return 0
        placed = [each for each in state.placed.values() if each.number]
        stale = await asyncio.to_thread(find_stale, pins, placed, local=local)
        for start in range(0, len(stale), _AT_ONCE):
            heads = stale[start : start + _AT_ONCE]
            async with self._guard.paused(kernel):
                count = await asyncio.to_thread(delete_pins, kernel, program, name, heads)
                self._guard.committed(count)
        return len(stale)
