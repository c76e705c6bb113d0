"""A record of all transactions of nftables in a namespace: when each was, and who made it."""

import contextlib
import select
import threading
import time
from typing import NamedTuple, Self

from kubeproxy.linux.netlink.message import attributes, decode
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFNLGRP_NFTABLES, NFT_MSG_NEWGEN
from kubeproxy.linux.netlink_socket import SOL_NETLINK
from kubeproxy.linux.nfnetlink import open_netfilter
from lab.namespaces import Namespace

_ADD_MEMBERSHIP = 1
_GENERATION, _PROCESS_NAME = 1, 3


class Transaction(NamedTuple):
    """When it took effect, its generation, and the name of the process that made it."""

    at: float
    generation: int
    by: str


class Generations:
    """Listens in a thread of its own, for as long as the context lasts."""

    def __init__(self, namespace: Namespace) -> None:
        self.seen: list[Transaction] = []
        with namespace.entered():
            self._link = open_netfilter()
        self._link.setsockopt(SOL_NETLINK, _ADD_MEMBERSHIP, NFNLGRP_NFTABLES)
        self._is_over = False
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()
        self._link.close()

    def by(self, name: str) -> list[Transaction]:
        """The transactions of processes with that name."""
        return [each for each in self.seen if each.by == name]

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        is_over = False
        while not is_over:
            is_over = self._is_over  # what was sent before the end is still to be read
            while poll.poll(0 if is_over else 20):
                with contextlib.suppress(BlockingIOError):
                    self._take(self._link.recv(1 << 16))

    def _take(self, data: bytes) -> None:
        now = time.monotonic()
        for message in decode(data):
            if message.type == NFT_MSG_NEWGEN:
                found = attributes(message.payload[NFGENMSG.size :])
                name = found[_PROCESS_NAME].rstrip(b"\0").decode()
                generation = int.from_bytes(found[_GENERATION], "big")
                self.seen.append(Transaction(now, generation, name))
