"""When the table of the fast path is made, and what is said about it. The kernel is a fake."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.fastpath import path as module
from kubeproxy.dataplane.nftables.fastpath.path import Done, FastPath, Settings
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.linux import links
from waiting import until

DONE = Done(("eth0",), {"eth0": 1500}, commits=1)


class Kernel:
    """Brings what is wanted, or refuses; it notes what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Mapping[str, int], bool]] = []
        self.removed = 0
        self.refuses = ""
        self.changed: Callable[[], None] = lambda: None
        monkeypatch.setattr(module, "bring", self.bring)
        monkeypatch.setattr(module, "remove", self.remove)
        monkeypatch.setattr(links, "watch_devices", self.watch)
        for name in ("PAUSE_SECONDS", "RETRY_SECONDS"):
            monkeypatch.setattr(module, name, 0.0)

    def bring(self, _: Settings, mtus: Mapping[str, int], *, leave: bool) -> Done:
        self.asked.append((mtus, leave))
        if self.refuses:
            raise KernelError(self.refuses)
        return DONE

    def remove(self) -> bool:
        self.removed += 1
        return True

    async def watch(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        await asyncio.Event().wait()


class Guard(TableGuard):
    """Notes how many transactions it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = 0

    def committed(self, count: int = 1) -> None:
        self.counted += count


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


@contextlib.asynccontextmanager
async def running(path: FastPath) -> AsyncIterator[None]:
    task = asyncio.create_task(path.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def fast_path(guard: TableGuard, why_not: str = "") -> FastPath:
    def self_test(families: Sequence[Family]) -> str:
        assert tuple(families) == tuple(Family)
        return why_not

    return FastPath(Settings(enabled=True), tuple(Family), self_test, guard)


async def test_it_is_on_when_the_kernel_has_it(kernel: Kernel) -> None:
    guard = Guard()
    path = fast_path(guard)
    assert path.state.reason == "starting"
    async with running(path):
        await until(lambda: path.state.on)
        assert (path.state.devices, path.state.packets) == (("eth0",), 20)
        assert (kernel.asked, guard.counted) == ([({}, False)], 1)


async def test_devices_that_change_are_looked_at(kernel: Kernel) -> None:
    """With what is known of their MTUs."""
    path = fast_path(TableGuard())
    async with running(path):
        await until(lambda: path.state.on)
        kernel.changed()
        await until(lambda: len(kernel.asked) == 2)
        assert kernel.asked[1] == ({"eth0": 1500}, False)


async def test_connections_that_have_to_leave(kernel: Kernel) -> None:
    """Also when the kernel refuses at first."""
    path = fast_path(TableGuard())
    async with running(path):
        await until(lambda: path.state.on)
        kernel.refuses = "no buffer space"
        path.release()
        await until(lambda: path.state.reason == "refused")
        assert path.state.why_not == "the kernel refuses its table: no buffer space"
        assert (path.state.on, path.state.devices, path.connections()) == (False, (), {})
        kernel.refuses = ""
        await until(lambda: path.state.on)
        assert all(leave for _, leave in kernel.asked[1:])
        kernel.changed()
        before = len(kernel.asked)
        await until(lambda: len(kernel.asked) > before)
        assert not kernel.asked[-1][1]


async def test_a_self_test_that_fails(kernel: Kernel) -> None:
    """What an earlier run left is removed."""
    guard = Guard()
    path = fast_path(guard, "packets are lost")
    await path.run()
    assert (path.state.reason, path.state.why_not) == ("self-test", "packets are lost")
    assert (kernel.asked, kernel.removed, guard.counted) == ([], 1, 1)


async def test_where_it_is_not_wanted(kernel: Kernel) -> None:
    path = FastPath(Settings(), tuple(Family), lambda _: "never called", TableGuard())
    await path.run()
    assert (path.state.wanted, path.state.reason, kernel.removed) == (False, "disabled", 1)
