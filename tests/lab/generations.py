"""A record of all transactions of nftables in a namespace: when each was, and who made it."""

import select
import threading
import time
from typing import NamedTuple, Self

from kubeproxy.linux.netlink.nfnetlink import attributes_in
from kubeproxy.linux.netlink.nftables import NFT_MSG_NEWGEN
from kubeproxy.linux.nfnetlink import NftablesChanges
from lab.namespaces import Namespace

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
            self._link = NftablesChanges()
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
                self._take()

    def _take(self) -> None:
        now = time.monotonic()
        for message in self._link.received():
            assert message is not None, "notifications were lost"
            if message.type == NFT_MSG_NEWGEN:
                found = attributes_in(message)
                name = found[_PROCESS_NAME].rstrip(b"\0").decode()
                generation = int.from_bytes(found[_GENERATION], "big")
                self.seen.append(Transaction(now, generation, name))
