"""A worker: a process that serves listeners, as the daemon orders over a Unix socket.

It ends when the daemon does, whatever ended it: the socket is closed then.
"""

import errno
import resource
import select
import signal
import socket
import sys
from typing import Final

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.bursts import Bursts
from kubeproxy.base.inet import join
from kubeproxy.dataplane.userspace.choosing import Choices, Target
from kubeproxy.dataplane.userspace.datagrams import Sessions, want_destinations
from kubeproxy.dataplane.userspace.loop import Loop
from kubeproxy.dataplane.userspace.orders import (
    AT_ONCE,
    LENGTH,
    Close,
    Count,
    Drop,
    Open,
    Order,
    Orders,
    Report,
    Settings,
    Targets,
    framed,
)
from kubeproxy.dataplane.userspace.relay import Pipes, Relay
from kubeproxy.linux.descriptors import KEPT, allow_many

_ACCEPTS_AT_ONCE: Final = 64
_REST_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 60.0
_READ_BYTES: Final = 1 << 18
_NO_MORE: Final = {errno.EAGAIN}
_NO_ROOM: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}


class TargetList:
    """The endpoints that a listener's clients get, and how many connections each had."""

    def __init__(self, order: Targets, choices: Choices) -> None:
        self.name = order.name
        self.number = order.number
        self.service = order.service
        self.choices = choices
        self.targets = order.targets
        self.counts: dict[Target, int] = {}


class Room:
    """How many descriptors there are for clients. A connection takes two, and its pipes four."""

    def __init__(self) -> None:
        allow_many()
        self.limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.most = max((self.limit - KEPT) // 2, 2)
        self.taken = 0
        self._bursts = Bursts()

    def take(self, now: float, name: str) -> bool:
        """Take the place of one connection; where there is none, say so."""
        if self.taken >= self.most:
            self.complain(now, name)
            return False
        self.taken += 1
        return True

    def complain(self, now: float, name: str) -> None:
        """Say that there are no descriptors left, once in a burst."""
        if self._bursts.begins(now):
            klog.error(
                "Out of file descriptors: clients wait until connections end. Raise the limit"
                " (ulimit -n, or LimitNOFILE= of the service), or set more userspace.workers",
                limit=self.limit,
                connections=self.taken,
                servicePort=name,
            )


class Served:
    """A listening socket that is served, as its connections see it."""

    def __init__(self, worker: "Worker", order: Open, opened: socket.socket) -> None:
        self.count = 0
        self.list = worker.lists[order.targets]
        self._worker = worker
        self._socket = opened
        self._sessions: Sessions | None = None
        opened.setblocking(False)
        if order.tcp:
            worker.loop.watch(opened.fileno(), self._accept, select.EPOLLIN)
        else:
            want_destinations(opened)
            self._sessions = Sessions(worker.loop, self, opened, worker.settings.udp_idle_seconds)

    def close(self) -> None:
        """Take no more clients; TCP connections go on until they end."""
        if self._sessions is not None:
            self._sessions.close()
        else:
            self._worker.loop.forget(self._socket.fileno())
            self._socket.close()

    def changed(self) -> None:
        """The endpoints are others: clients of UDP whose endpoint is gone get another."""
        if self._sessions is not None:
            self._sessions.keep(frozenset(self.list.targets))

    def _accept(self, _events: int) -> None:
        worker = self._worker
        for _ in range(_ACCEPTS_AT_ONCE):
            if not self.take():
                self._rest()
                return
            try:
                client, address = self._socket.accept()
            except OSError as error:
                self.ended()
                if error.errno in _NO_MORE:
                    return
                if error.errno in _NO_ROOM:
                    worker.room.complain(worker.loop.now, self.list.name)
                    self._rest()
                    return
                continue  # this client's network failed
            client.setblocking(False)
            Relay(worker.loop, worker.pipes, self, client, address[0]).dial()

    def _rest(self) -> None:
        """Accept nothing for a second: clients wait in the kernel's queue meanwhile."""
        loop = self._worker.loop
        loop.forget(self._socket.fileno())
        loop.later(_REST_SECONDS, self._accept_again)

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._worker.loop.watch(self._socket.fileno(), self._accept, select.EPOLLIN)

    # What connections ask of it.

    def take(self) -> bool:
        """Whether there is room for one connection more."""
        return self._worker.room.take(self._worker.loop.now, self.list.name)

    def choose(self, client: str) -> Target | None:
        """The endpoint for a client."""
        given = self.list
        if not given.targets:
            return None
        return given.choices.choose(given.number, given.targets, client, self._worker.loop.now)

    def connected(self, target: Target) -> None:
        """Count a connection."""
        self.count += 1
        self.list.counts[target] = self.list.counts.get(target, 0) + 1

    def failed(self, client: str, target: Target, error: OSError) -> None:
        """The client gets another endpoint."""
        self.list.choices.failed(client, target)
        klog.info(
            "Cannot reach an endpoint, its client gets the next one",
            v=2,
            err=error,
            servicePort=self.list.name,
            endpoint=join(*target),
            client=client,
        )

    def ended(self) -> None:
        """There is room for another connection."""
        self._worker.room.taken -= 1


class Worker:
    """All that a worker has."""

    def __init__(self, settings: Settings, orders: socket.socket) -> None:
        self.settings = settings
        self.loop = Loop()
        self.room = Room()
        self.pipes = Pipes(self.room.limit // 8)
        self.lists: dict[int, TargetList] = {}
        self._choices: dict[int, Choices] = {}
        self._served: dict[int, Served] = {}
        self._orders = orders
        self._received = bytearray()
        self._descriptors: list[int] = []
        self.loop.watch(orders.fileno(), self._read, select.EPOLLIN)
        self.loop.later(_IDLE_SECONDS, self._forget_idle)

    def _read(self, _events: int) -> None:
        data, descriptors, _flags, _address = socket.recv_fds(self._orders, _READ_BYTES, AT_ONCE)
        if not data:  # the daemon has ended
            self.loop.stop()
            return
        self._received += data
        self._descriptors += descriptors
        while len(self._received) >= LENGTH.size:
            size = LENGTH.size + LENGTH.unpack_from(self._received)[0]
            if len(self._received) < size:
                break
            message = bytes(self._received[LENGTH.size : size])
            del self._received[:size]
            report = Report()
            for order in msgspec.msgpack.decode(message, type=Orders).orders:
                if isinstance(order, Count):
                    report = self._report()
                else:
                    self._carry_out(order)
            self._orders.sendall(framed(report))

    def _carry_out(self, order: Order) -> None:
        match order:
            case Targets():
                self._set_targets(order)
            case Open(listener=listener):
                opened = socket.socket(fileno=self._descriptors.pop(0))
                self._served[listener] = Served(self, order, opened)
            case Close(listener=listener):
                if listener in self._served:  # one that replaces another never had it
                    self._served.pop(listener).close()
            case Drop(number=number):
                self._drop(number)

    def _set_targets(self, order: Targets) -> None:
        choices = self._choices.setdefault(order.service, Choices())
        choices.affinity_seconds = order.affinity_seconds
        given = self.lists.get(order.number)
        if given is None:
            self.lists[order.number] = TargetList(order, choices)
            return
        given.targets = order.targets
        for served in self._served.values():
            if served.list is given:
                served.changed()

    def _drop(self, number: int) -> None:
        dropped = self.lists.pop(number, None)
        if dropped is None:
            return
        service = dropped.service
        if all(each.service != service for each in self.lists.values()):
            del self._choices[service]

    def _report(self) -> Report:
        return Report(
            listeners={number: served.count for number, served in self._served.items()},
            lists={number: tuple(each.counts.items()) for number, each in self.lists.items()},
            taken=self.room.taken,
        )

    def _forget_idle(self) -> None:
        for choices in self._choices.values():
            choices.forget_idle(self.loop.now)
        self.loop.later(_IDLE_SECONDS, self._forget_idle)


def main() -> None:
    """Serve until the daemon closes the socket; the arguments are its descriptor and settings."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which ends this
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    orders = socket.socket(fileno=int(sys.argv[1]))
    settings = msgspec.json.decode(sys.argv[2], type=Settings)
    klog.set_verbosity(settings.verbosity)
    Worker(settings, orders).loop.run()


if __name__ == "__main__":
    main()
