"""Word of every change of nftables in this network namespace, whoever makes it."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from typing import Self

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink.message import Message, decode
from kubeproxy.linux.netlink.nfnetlink import NFNLGRP_NFTABLES
from kubeproxy.linux.netlink_socket import (
    NETLINK_ADD_MEMBERSHIP,
    NETLINK_DROP_MEMBERSHIP,
    SOL_NETLINK,
)
from kubeproxy.linux.nfnetlink import open_netfilter

_DATAGRAM = 1 << 16


class Watch:
    """A socket that listens from its making on, until it is closed or paused.

    Listening is dear for who commits: the kernel makes a message of some 4 KB for each set
    element before it sends the first, whoever made the change. A fill of 240,000 elements takes
    2 to 12 s instead of 0.5 s, and a GB of kernel memory. So pause the watch around a large
    commit, and compare `Nfnetlink.generation()` afterwards: it counts one for each commit, and
    any further one is somebody else's.
    """

    def __init__(self) -> None:
        self._socket = open_netfilter()
        self.room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        """How many bytes of kernel memory may wait to be read before messages are lost."""
        self._change_membership(NETLINK_ADD_MEMBERSHIP)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not listen for as long as the context lasts; one that is closed stays closed."""
        self._change_membership(NETLINK_DROP_MEMBERSHIP)
        try:
            yield
        finally:
            self._change_membership(NETLINK_ADD_MEMBERSHIP)

    async def follow(self, changed: Callable[[Message | None], None], ignore: int = 0) -> None:
        """Call `changed` with every message, until cancelled.

        A message is an object that came or went, or a new generation (NFT_MSG_NEWGEN, the end of
        a transaction). Those that the socket with the port `ignore` caused are left out. None
        says that messages were lost: anything may have changed.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._socket, _DATAGRAM)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise KernelError(f"cannot watch nftables: {error}") from error
                changed(None)
                continue
            for message in decode(data):
                if message.port != ignore:
                    changed(message)

    def _change_membership(self, change: int) -> None:
        try:
            self._socket.setsockopt(SOL_NETLINK, change, NFNLGRP_NFTABLES)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
