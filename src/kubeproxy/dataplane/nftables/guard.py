"""Notices when other processes change our tables. One watch serves both families.

A watch makes large transactions slow, because the kernel writes a message for every element
before it sends the first: the watch is paused for them, and the generation is compared instead.
That counts the transactions of all processes, so ours have to be counted too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.names import FILLED_BY_PACKETS, PINS, SHARED_PINS, TABLE
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import attributes_in
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink, NftablesChanges

# Packets fill these themselves, and stale pins are deleted beside the syncs.
_FILLED_BY_PACKETS = {
    name.encode() + b"\0" for name in (*PINS.values(), *SHARED_PINS.values(), *FILLED_BY_PACKETS)
}


def concerns(message: Message) -> int | None:
    """The family of our table that a message is about; None when it is about another one."""
    if message.type == nft.NFT_MSG_NEWGEN:
        return None
    # Every object names its table with the same attribute, and a set has the name that its
    # elements have.
    found = attributes_in(message)
    is_ours = found.get(nft.NFTA_SET_ELEM_LIST_TABLE) == TABLE.encode() + b"\0"
    by_packets = found.get(nft.NFTA_SET_ELEM_LIST_SET) in _FILLED_BY_PACKETS
    return message.payload[0] if is_ours and not by_packets else None


class Moment(NamedTuple):
    """A generation of the kernel's rules, and how many transactions were ours by then."""

    generation: int
    own: int


class TableGuard:
    """Notifies the owner of a family when other processes change its table."""

    def __init__(self) -> None:
        self._watch: NftablesChanges | None = None
        self._commits = 0
        self._turn = asyncio.Lock()
        self._own: set[int] = set()
        self._lost: dict[int, Lost] = {}
        self._changed: set[int] = set()

    async def follow(self, family: int, port: int, lost: Lost) -> None:
        """Call `lost` when others than the sockets of these ports change the family's table.

        At the end of their transaction: the kernel says only then who made it.
        """
        self._own.add(port)
        is_first = not self._lost
        self._lost[family] = lost
        if not is_first:
            await asyncio.Event().wait()  # the first one follows for all
        async with self._turn:  # to begin amid a large transaction would be as slow
            watch = self._watch = NftablesChanges()
        try:
            await watch.follow(self._notify)
        finally:
            async with self._turn:  # a task that has paused it needs it once more
                self._watch = None
                watch.close()

    def committed(self, count: int = 1) -> None:
        """So many transactions of ours have succeeded."""
        self._commits += count

    async def moment(self, kernel: Nfnetlink) -> Moment:
        """The present, at which no transaction of ours is under way."""
        async with self._turn:
            return Moment(kernel.generation(), self._commits)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Inside, no large transaction is under way; those made here have to be counted."""
        async with self._turn:
            yield

    def expected(self, since: Moment | None) -> int | None:
        """The generation now, if no other process has changed anything; None for None."""
        if since is None:
            return None
        return (since.generation + self._commits - since.own) & 0xFFFFFFFF

    @contextlib.asynccontextmanager
    async def paused(self, kernel: Nfnetlink) -> AsyncIterator[None]:
        """Do not watch: large transactions are under way, in a thread; one thread at a time."""
        async with self._turn:
            before = Moment(kernel.generation(), self._commits)
            # The kernel counts a transaction first and notifies of it at its end. It looks at no
            # other one before that, not even at one to be refused: after this one, all that were
            # counted have been notified of.
            with contextlib.suppress(Refused):
                refused = [delete_table(Family.IPV4, f"{TABLE}-none")]
                await asyncio.to_thread(kernel.rehearse, refused)
            try:
                with self._watch.paused() if self._watch else contextlib.nullcontext():
                    yield
            except KernelError:
                self._compare(kernel, before)
                raise
            self._compare(kernel, before)

    def _compare(self, kernel: Nfnetlink, before: Moment) -> None:
        """Another process that changed something may have changed any of our tables."""
        if kernel.generation() != self.expected(before):
            self._notify(None)

    def _notify(self, message: Message | None) -> None:
        if message is None:
            self._changed.clear()
            for lost in self._lost.values():
                lost(None)
        elif message.port in self._own:
            return
        elif message.type == nft.NFT_MSG_NEWGEN:
            changed, self._changed = self._changed, set()
            for family in changed:
                self._lost[family](nft.writer_in(message))
        else:
            changed_family = concerns(message)
            if changed_family is not None and changed_family in self._lost:
                self._changed.add(changed_family)
