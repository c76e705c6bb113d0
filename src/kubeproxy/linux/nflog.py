"""Notifications that rules send with `log group N`: that there was a packet, or how it begins.

The kernel keeps none for a process that is not there, and drops what is not read in time: a rule
that notifies never waits.
"""

import asyncio
import contextlib
import errno
import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink import nfnetlink as nf
from kubeproxy.linux.netlink.attribute import attribute, u32
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink_socket import Link

# linux/netfilter/nfnetlink_log.h
_CONFIG: Final = nf.NFNL_SUBSYS_ULOG << 8 | 1
_NFULA_CFG_CMD, _NFULA_CFG_MODE, _NFULA_CFG_QTHRESH = 1, 2, 5
_BIND: Final = 1
_COPY_NONE, _COPY_PACKET = 0, 2
_MODE: Final = struct.Struct("!IBx")
_MOST = 1 << 16

_ADVICE: Final = {
    errno.EPERM: "another process gets them, such as a second kube-proxy; or CAP_NET_ADMIN lacks",
    errno.EOPNOTSUPP: "the kernel lacks nfnetlink_log; load that module",
    errno.EINVAL: "the kernel lacks nfnetlink_log; load that module",
}


class LogGroup(Link):
    """The notifications of one group; there can be one socket for it in a network namespace."""

    def __init__(self, group: int, copied: int = 0) -> None:
        """`copied` is how many bytes of each packet are wanted."""
        super().__init__(nf.NETLINK_NETFILTER, _ADVICE)
        what = f"cannot get the notifications of log group {group}"
        mode = _MODE.pack(copied, _COPY_PACKET if copied else _COPY_NONE)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for parts in (
                attribute(_NFULA_CFG_CMD, bytes([_BIND])),
                # At once; and by default only that there is one.
                attribute(_NFULA_CFG_MODE, mode) + u32(_NFULA_CFG_QTHRESH, 1),
            ):
                header = nf.NFGENMSG.pack(nf.NFPROTO_UNSPEC, 0, group)
                flags = nl.NLM_F_REQUEST | nl.NLM_F_ACK
                self.request(Message(_CONFIG, flags, 0, header + parts), what)
            undo.pop_all()

    async def wait(self) -> None:
        """Wait for a notification; all that are there are one."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_recv(self._socket, _MOST)
        except OSError as error:
            if error.errno != errno.ENOBUFS:  # some were lost: so there were some
                raise self.failed("cannot read notifications of rules", error) from error
        for _ in self.received():
            pass

    def read(self, most: int) -> Iterator[Message]:
        """Up to so many packets that have come; `lost` counts what was."""
        for message in islice(self.received(), most):
            if message is not None:
                yield message
