"""Watches for changes of our tables by others. One watch serves both families.

Listening makes large transactions dear, because the kernel writes a message for every element
before it sends the first: the watch is paused for them, and the generation is compared instead.
It counts all transactions, so ours have to be counted too.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.program import PINS, SHARED_PINS, TABLE
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import attributes_in
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink, NftablesChanges

# Packets fill these themselves, and stale pins are deleted beside the syncs.
_OPEN_TO_ALL = {name.encode() + b"\0" for name in (*PINS.values(), *SHARED_PINS.values())}


def concerns(message: Message) -> int | None:
    """The family of our table that a message speaks of; None when it is not about ours."""
    if message.type == nft.NFT_MSG_NEWGEN:
        return None
    # Every object names its table with the same attribute, and a set has the name that its
    # elements have.
    found = attributes_in(message)
    if found.get(nft.NFTA_SET_ELEM_LIST_TABLE) != TABLE.encode() + b"\0":
        return None
    if found.get(nft.NFTA_SET_ELEM_LIST_SET) in _OPEN_TO_ALL:
        return None
    return message.payload[0]


def _wait_received(kernel: Nfnetlink) -> None:
    """Return when the kernel has sent messages of every transaction that it has counted so far.

    It counts a transaction first and sends its messages at the end. It looks at no other one, not
    even at one to be refused, before that.
    """
    with contextlib.suppress(Refused):
        kernel.rehearse([delete_table(Family.IPV4, f"{TABLE}-none")])


class Moment(NamedTuple):
    """A generation of the kernel's rules, and how many transactions were ours by then."""

    generation: int
    own: int


class TableGuard:
    """Reports changes by others to the dataplane of the family."""

    def __init__(self) -> None:
        self._watch: NftablesChanges | None = None
        self._commits = 0
        self._turn = asyncio.Lock()
        self._own: set[int] = set()
        self._lost: dict[int, Callable[[], None]] = {}

    async def follow(self, family: int, port: int, lost: Callable[[], None]) -> None:
        """Call `lost` when others than the sockets of these ports change the family's table."""
        self._own.add(port)
        is_first = not self._lost
        self._lost[family] = lost
        if not is_first:
            await asyncio.Event().wait()  # the first one follows for all
        async with self._turn:  # to begin amid a large transaction would be as dear
            watch = self._watch = NftablesChanges()
        try:
            await watch.follow(self._report)
        finally:
            async with self._turn:  # a pause needs it once more
                self._watch = None
                watch.close()

    def committed(self, count: int = 1) -> None:
        """So many transactions of ours have succeeded."""
        self._commits += count

    async def moment(self, kernel: Nfnetlink) -> Moment:
        """The present, at which no transaction of ours is under way."""
        async with self._turn:
            return Moment(kernel.generation(), self._commits)

    def expected(self, since: Moment | None) -> int | None:
        """The generation now, when only we have changed anything; None asks for nothing."""
        if since is None:
            return None
        return (since.generation + self._commits - since.own) & 0xFFFFFFFF

    @contextlib.asynccontextmanager
    async def paused(self, kernel: Nfnetlink) -> AsyncIterator[None]:
        """Do not listen: large transactions are under way, in a thread; one thread at a time."""
        async with self._turn:
            before = Moment(kernel.generation(), self._commits)
            await asyncio.to_thread(_wait_received, kernel)
            try:
                with self._watch.paused() if self._watch else contextlib.nullcontext():
                    yield
            except KernelError:
                self._compare(kernel, before)
                raise
            self._compare(kernel, before)

    def _compare(self, kernel: Nfnetlink, before: Moment) -> None:
        """A change meanwhile may be one of any of our tables."""
        if kernel.generation() != self.expected(before):
            self._report(None)

    def _report(self, message: Message | None) -> None:
        if message is None:
            for lost in self._lost.values():
                lost()
        elif message.port not in self._own:
            lost_family = concerns(message)
            if lost_family in self._lost:
                self._lost[lost_family]()
