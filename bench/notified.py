"""How much a transaction writes: the size of the kernel's notifications of it.

Proxies write in different ways, one with a socket, another with a program. The notifications are
the same for all: each object that was added or removed, in the kernel's own encoding. Listening
costs the writer, so nothing is timed meanwhile.
"""

import errno
import time

from kubeproxy.linux.netlink.message import HEADER, decode
from kubeproxy.linux.netlink.nfnetlink import NFNLGRP_NFTABLES, NFT_MSG_NEWGEN
from kubeproxy.linux.netlink_socket import NETLINK_ADD_MEMBERSHIP, SOL_NETLINK
from kubeproxy.linux.nfnetlink import open_netfilter
from lab.namespaces import Namespace


class Notified:
    """Listens in a namespace until closed."""

    def __init__(self, namespace: Namespace) -> None:
        with namespace.entered():
            self._link = open_netfilter()
        self._link.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTABLES)

    def close(self) -> None:
        """Stop listening."""
        self._link.close()

    def take(self, timeout: float, quiet: float = 0.2) -> int:
        """Bytes of notifications until there is none for a while."""
        total, end = 0, time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                data = self._link.recv(1 << 16)
            except BlockingIOError:
                time.sleep(0.002)
                continue
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                raise RuntimeError("the notifications exceed the buffer") from error
            end = time.monotonic() + quiet
            found = (each for each in decode(data) if each.type != NFT_MSG_NEWGEN)
            total += sum(HEADER.size + len(each.payload) for each in found)
        return total
