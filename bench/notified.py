"""How much a transaction writes: the messages with which the kernel tells others of it.

No proxy can be asked for that, and their ways differ (a socket here, a program there). What the
kernel tells listeners of a transaction is the same for all: each object that came or went, in the
kernel's own encoding. Listening costs the writer, so nothing is timed meanwhile.
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

    def take(self, patience: float, quiet: float = 0.2) -> int:
        """Bytes told until nothing was told for a while; 0 when nothing comes at all."""
        total, end = 0, time.monotonic() + patience
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
