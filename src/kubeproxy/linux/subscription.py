"""Notifications: what the kernel sends to every socket that has joined a multicast group."""

import asyncio
import contextlib
import errno
from collections.abc import Callable, Iterator
from typing import Final

from kubeproxy.linux.netlink.message import Message, decode
from kubeproxy.linux.netlink.nfnetlink import NETLINK_NETFILTER
from kubeproxy.linux.netlink.nftables import NFNLGRP_NFTABLES
from kubeproxy.linux.netlink_socket import DATAGRAM, SOL_NETLINK, Link

_NETLINK_ADD_MEMBERSHIP: Final = 1
_NETLINK_DROP_MEMBERSHIP: Final = 2


class Subscription(Link):
    """A socket that gets notifications from when it is made, until it is closed or paused."""

    def __init__(self, protocol: int, *groups: int) -> None:
        super().__init__(protocol)
        self._groups = groups
        try:
            self._change_membership(_NETLINK_ADD_MEMBERSHIP)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Get nothing for as long as the context lasts; one that is closed stays closed."""
        self._change_membership(_NETLINK_DROP_MEMBERSHIP)
        try:
            yield
        finally:
            self._change_membership(_NETLINK_ADD_MEMBERSHIP)

    async def follow(self, notify: Callable[[Message | None], None]) -> None:
        """Call `notify` with every message, until cancelled.

        None says that messages were lost: anything may have changed.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._socket, DATAGRAM)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise self.failed("cannot read notifications", error) from error
                notify(None)
                continue
            for message in decode(data):
                notify(message)

    def _change_membership(self, change: int) -> None:
        for group in self._groups:
            try:
                self._socket.setsockopt(SOL_NETLINK, change, group)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise self.failed("cannot subscribe to notifications", error) from error


class NftablesChanges(Subscription):
    """Every change of nftables in this network namespace, of all processes.

    A message is an object that was added or removed, or a new generation (NFT_MSG_NEWGEN, the end
    of a transaction).

    A subscription makes commits expensive: the kernel makes a message of some 4 KB for each set
    element before it sends the first, whichever process commits. A fill of 240,000 elements takes
    2 to 12 s instead of 0.5 s, and a GB of kernel memory. So pause it around a large commit, and
    compare `Nfnetlink.generation()` afterwards: it counts one for each commit, and any further
    one is of another process.
    """

    def __init__(self) -> None:
        super().__init__(NETLINK_NETFILTER, NFNLGRP_NFTABLES)
