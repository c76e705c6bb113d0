"""How much a transaction writes: the size of the kernel's notifications of it.

Proxies write in different ways, one with a socket, another with a program. The notifications are
the same for all: each object that was added or removed, in the kernel's own encoding. Listening
costs the writer, so nothing is timed meanwhile.
"""

import time

from kubeproxy.linux.netlink.message import HEADER
from kubeproxy.linux.netlink.nftables import NFT_MSG_NEWGEN
from kubeproxy.linux.nfnetlink import NftablesChanges
from lab.namespaces import Namespace


class Notified:
    """Listens in a namespace until closed."""

    def __init__(self, namespace: Namespace) -> None:
        with namespace.entered():
            self._link = NftablesChanges()

    def close(self) -> None:
        """Stop listening."""
        self._link.close()

    def take(self, timeout: float, quiet: float = 0.2) -> int:
        """Bytes of notifications until there is none for a while."""
        total, end = 0, time.monotonic() + timeout
        while time.monotonic() < end:
            messages = list(self._link.received())
            if not messages:
                time.sleep(0.002)
                continue
            end = time.monotonic() + quiet
            for message in messages:
                if message is None:
                    raise RuntimeError("the kernel sent more than the buffer holds")
                if message.type != NFT_MSG_NEWGEN:
                    total += HEADER.size + len(message.payload)
        return total
