"""Who changed the rules: the other family of ours is not another program."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.nftables import apply
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.diff import NO_CHANGES
from kubeproxy.table.entries import Table
from lab.entries import served
from lab.farm import crop
from lab.namespaces import Namespace
from waiting import until
from world import Mode, node


@pytest.fixture
def namespace(_own_namespaces: None) -> Iterator[Namespace]:
    made = Namespace("guard")
    with made.entered():
        yield made
    made.close()


@pytest.fixture(autouse=True)
def _many_large_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the smallest count as large, and a first fill takes many of them."""
    monkeypatch.setattr(apply, "_LARGE", 1000)
    monkeypatch.setattr(apply, "_PIECE", 1 << 16)


class Both:
    """Both families under one guard, with a note of which were notified of changes by others."""

    def __init__(self, guard: TableGuard) -> None:
        self.guard = guard
        self.notified: list[Family] = []
        self.kernels = {family: Nfnetlink() for family in Family}
        self._dataplanes = {
            family: apply.Nftables(family, NftablesSettings(), self.kernels[family], guard)
            for family in Family
        }

    async def watch(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for family, dataplane in self._dataplanes.items():
                tasks.create_task(dataplane.watch(partial(self._note, family)))

    def _note(self, family: Family, _: Writer | None) -> None:
        self.notified.append(family)

    async def fill(self) -> None:
        """Program thousands of elements of both families at the same time."""
        async with asyncio.TaskGroup() as tasks:
            for family in Family:
                tasks.create_task(self._fill(family))

    async def _fill(self, family: Family) -> None:
        table = Table(family)
        for number in range(1, 101):
            table.put(served(number, [crop(each, family) for each in range(40)], family))
        update = Update(table, node(Mode.NFTABLES, family), NO_CHANGES, full=True)
        assert (await self._dataplanes[family].apply(update)).written > 4000

    async def close(self) -> None:
        for dataplane in self._dataplanes.values():
            await dataplane.close()


@pytest.fixture
async def both(namespace: Namespace) -> AsyncIterator[Both]:
    del namespace  # is entered
    opened = Both(TableGuard())
    yield opened
    await opened.close()


@pytest.fixture
async def watched(both: Both) -> AsyncIterator[Both]:
    watching = asyncio.create_task(both.watch())
    yield both
    watching.cancel()


async def test_families_that_fill_at_once_do_not_disturb_each_other(
    watched: Both, namespace: Namespace
) -> None:
    kernel = watched.kernels[Family.IPV4]
    before = kernel.generation()
    await watched.fill()
    # Each piece was committed once: nothing had to be read again.
    assert 6 < kernel.generation() - before < 20
    # Changes are reported in their order: this one is the first.
    await asyncio.to_thread(namespace.run, ["nft", "add", "chain", "ip6", "kube-proxy", "theirs"])
    await until(lambda: bool(watched.notified))
    assert watched.notified == [Family.IPV6]


async def test_changes_of_others_meanwhile_are_reported_to_both_families(
    watched: Both, namespace: Namespace
) -> None:
    await watched.fill()
    async with watched.guard.paused(watched.kernels[Family.IPV4]):
        await asyncio.to_thread(namespace.run, ["nft", "flush", "table", "ip6", "kube-proxy"])
    assert set(watched.notified) == set(Family)


async def test_a_change_whose_notification_is_still_to_come_is_not_missed(watched: Both) -> None:
    """The kernel counts a transaction before it sends word of it: we go deaf in between."""
    await watched.fill()
    kernel = watched.kernels[Family.IPV4]
    before = kernel.generation()
    deadline = time.monotonic() + 60
    maps = [f"flush map {ip} kube-proxy service-endpoints" for ip in ("ip", "ip6")]
    with subprocess.Popen(["nft", "; ".join(maps)]) as theirs:  # noqa: ASYNC220  # it is spun on
        while kernel.generation() == before:
            assert time.monotonic() < deadline
        async with watched.guard.paused(kernel):
            await asyncio.to_thread(theirs.wait)
    await until(lambda: Family.IPV4 in watched.notified)


async def test_later_changes_of_others_are_reported_to_their_family(
    watched: Both, namespace: Namespace
) -> None:
    await watched.fill()
    await asyncio.to_thread(namespace.run, ["nft", "flush", "table", "ip6", "kube-proxy"])
    await until(lambda: bool(watched.notified))
    assert set(watched.notified) == {Family.IPV6}


async def test_an_end_amid_a_transaction_is_none_for_the_watch(both: Both) -> None:
    """Tasks are cancelled in any order: the watch stays open for whoever has paused it."""
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(both.watch())
        await asyncio.sleep(0)
        await both.fill()
        under_way = tasks.create_task(_wait_unheard(both))
        await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.sleep(0.01)
        under_way.cancel()
    assert watching.cancelled()
    assert under_way.cancelled()


async def _wait_unheard(both: Both) -> None:
    async with both.guard.paused(both.kernels[Family.IPV4]):
        await asyncio.Event().wait()
