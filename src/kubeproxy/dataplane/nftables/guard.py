"""Notices when others change our tables. One watch serves both families.

Listening makes large transactions dear, because the kernel writes a message for every element
before it sends the first: the watch is paused for them, and the generation is compared instead.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from kubeproxy.dataplane.nftables.program import AFFINITY, LOCAL_AFFINITY, TABLE
from kubeproxy.kernel.nftwatch import Watch
from kubeproxy.netlink.message import Message, attributes
from kubeproxy.netlink.nfnetlink import NFT_MSG_NEWGEN

# Packets fill these themselves, and stale pins are deleted beside the syncs.
_OPEN_TO_ALL = {AFFINITY.encode() + b"\0", LOCAL_AFFINITY.encode() + b"\0"}


def concerns(message: Message) -> int | None:
    """The family of our table that a message speaks of; None when it is not about ours."""
    if message.type == NFT_MSG_NEWGEN:
        return None
    found = attributes(message.payload[4:])
    if found.get(1) != TABLE.encode() + b"\0" or found.get(2) in _OPEN_TO_ALL:
        return None
    return message.payload[0]


class Guard:
    """Passes on word of changes by others to those who own a family."""

    def __init__(self) -> None:
        self._watch: Watch | None = None
        self._own: set[int] = set()
        self._lost: dict[int, Callable[[], None]] = {}

    async def follow(self, family: int, port: int, lost: Callable[[], None]) -> None:
        """Call `lost` when others than the sockets of these ports change the family's table."""
        self._own.add(port)
        self._lost[family] = lost
        if self._watch is not None:
            await asyncio.Event().wait()  # the first one follows for all
        with Watch() as self._watch:
            await self._watch.follow(self._tell)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not listen: a large transaction is under way."""
        with self._watch.paused() if self._watch else contextlib.nullcontext():
            yield

    def _tell(self, message: Message | None) -> None:
        if message is None:
            for lost in self._lost.values():
                lost()
        elif message.port not in self._own:
            lost_family = concerns(message)
            if lost_family in self._lost:
                self._lost[lost_family]()
