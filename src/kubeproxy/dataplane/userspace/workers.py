"""The worker processes of a family, as the daemon sees them: orders go out, reports come back."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.contract import Lost
from kubeproxy.dataplane.userspace.orders import (
    AT_ONCE,
    LENGTH,
    Count,
    Open,
    Order,
    Orders,
    Report,
    Settings,
    framed,
)
from kubeproxy.dataplane.userspace.sockets import Group

_MODULE: Final = "kubeproxy.dataplane.userspace.worker"
_ANSWER_SECONDS: Final = 30.0
_END_SECONDS: Final = 5.0


class Sockets(dict[int, Group]):
    """The sockets of listeners that are to be opened, one for each worker."""

    def descriptors(self, place: int) -> list[int]:
        """Those of one worker, in the order of the listeners."""
        return [some[place].fileno() for some in self.values()]

    def close(self) -> None:
        """Close them: workers have copies of their own, or will not get any."""
        for some in self.values():
            for each in some:
                each.close()
        self.clear()


class WorkerEnded(KernelError):
    """A worker ended, or does not answer."""


class Worker:
    """One worker process."""

    def __init__(self, settings: Settings) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._turn = threading.Lock()
        self._is_lost = False
        ours.settimeout(_ANSWER_SECONDS)
        encoded = msgspec.json.encode(settings).decode()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # our own module
                [sys.executable, "-m", _MODULE, str(theirs.fileno()), encoded],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def carry_out(self, orders: Sequence[Order], descriptors: Sequence[int] = ()) -> None:
        """Have it carry out orders; there is a descriptor for each `Open` among them."""
        rest = iter(descriptors)
        with self._turn:
            for start in range(0, len(orders), AT_ONCE):
                some = tuple(orders[start : start + AT_ONCE])
                opened = sum(isinstance(each, Open) for each in some)
                self._ask(some, list(islice(rest, opened)))

    def counted(self) -> Report:
        """What it has counted."""
        with self._turn:
            return self._ask((Count(),), [])

    def _ask(self, orders: tuple[Order, ...], descriptors: list[int]) -> Report:
        data = framed(Orders(orders))
        try:
            sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else 0
            self._socket.sendall(data[sent:])
            (size,) = LENGTH.unpack(self._receive(LENGTH.size))
            return msgspec.msgpack.decode(self._receive(size), type=Report)
        except OSError as error:
            self._is_lost = True
            raise WorkerEnded(f"worker {self.pid} does not answer: {error}") from error

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = self._socket.recv(size - len(received))
            if not data:
                raise ConnectionResetError("it has ended")
            received += data
        return bytes(received)

    async def ended(self) -> None:
        """Wait until the process is gone."""
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        descriptor = os.pidfd_open(self.pid)
        try:
            loop.add_reader(descriptor, gone.set)
            await gone.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    def has_ended(self) -> bool:
        """Whether the process is gone, or does not answer."""
        return self._is_lost or self._process.poll() is not None

    def close(self) -> None:
        """End it, with all its connections."""
        self._socket.close()
        if self._is_lost:
            self._process.kill()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Pool:
    """All workers of a family."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._settings = settings
        self.workers = [Worker(settings) for _ in range(count)]
        self._replaced = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, orders: Sequence[Order], sockets: Sockets) -> None:
        """Have all workers carry out orders; `sockets` are those of the listeners they open."""
        failed = None
        for place, worker in enumerate(self.workers):
            try:
                worker.carry_out(orders, sockets.descriptors(place))
            except WorkerEnded as error:
                failed = error  # the others shall know it all the same
        sockets.close()
        if failed is not None:
            raise failed

    def replace_ended(self) -> Iterator[Worker]:
        """Start workers in place of those that have ended."""
        for place, each in enumerate(self.workers):
            if each.has_ended():
                each.close()
                self.workers[place] = Worker(self._settings)
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._replaced.set)
                yield self.workers[place]

    async def watch(self, lost: Lost) -> None:
        """Call `lost` when a worker ends, until cancelled."""
        self._loop = asyncio.get_running_loop()
        followed: set[int] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                for worker in self.workers:
                    if worker.pid not in followed:
                        followed.add(worker.pid)
                        tasks.create_task(_report_end(worker, lost))
                await self._replaced.wait()
                self._replaced.clear()

    def close(self) -> None:
        """End all workers, with their connections."""
        for each in self.workers:
            each.close()


async def _report_end(worker: Worker, lost: Lost) -> None:
    await worker.ended()
    klog.error("A worker has ended, with its connections; another one takes over", pid=worker.pid)
    lost(None)
