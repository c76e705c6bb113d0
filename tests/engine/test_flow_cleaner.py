"""When stale flows are forgotten, and with what in mind. Which flows are stale is elsewhere."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.engine import flow_cleaner as flows
from kubeproxy.engine.flow_cleaner import StaleFlows
from kubeproxy.linux.netlink.conntrack import Flow
from kubeproxy.table.diff import Changes, patch
from kubeproxy.table.entries import (
    Backend,
    Entry,
    Frontend,
    FrontendKind,
    ServicePortName,
    Table,
)
from waiting import until
from world import CLUSTER_IP

L1, R1 = Backend("10.64.3.11", 53), Backend("10.65.7.21", 53)


def dns(*serving: Backend, protocol: Protocol = Protocol.UDP) -> Entry:
    frontend = Frontend(FrontendKind.CLUSTER_IP, CLUSTER_IP, 53)
    name = ServicePortName("kube-system", "dns", "dns", protocol)
    return Entry(name, (frontend,), cluster=serving, has_endpoints=bool(serving), serving=serving)


class Cleaner:
    """Stands in for `clean`: records its calls, and can wait or fail."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[Entry], list[Entry]]] = []
        self.failures = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, family: Family, entries: Iterable[Entry], former: Iterable[Entry]) -> int:
        assert family is Family.IPV4
        self.asked.append((list(entries), list(former)))
        assert self.may_go_on.wait(10)
        if self.failures:
            self.failures -= 1
            raise KernelError("no buffer space")
        return 7


class Rig:
    """A table that is synced, and the flows of its family."""

    def __init__(self, cleaner: Cleaner) -> None:
        self.cleaner = cleaner
        self.table = Table(Family.IPV4)
        self.flows = StaleFlows(Family.IPV4)

    def begin_sync(self, changes: Changes) -> None:
        patch(self.table, changes)
        self.flows.changing(changes)

    def end_sync(self) -> None:
        self.flows.changed(self.table)

    def sync(self, changes: Changes) -> None:
        self.begin_sync(changes)
        self.end_sync()

    async def wait_asked(self, times: int) -> None:
        await until(lambda: len(self.cleaner.asked) == times)

    async def wait_quiet(self) -> None:
        """All that is due has been asked for: what is asked for now comes after it."""
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    cleaner = Cleaner()
    monkeypatch.setattr(flows, "clean", cleaner)
    monkeypatch.setattr(flows, "RETRY_SECONDS", 0.01)
    rig = Rig(cleaner)
    running = asyncio.ensure_future(rig.flows.run())
    yield rig
    cleaner.may_go_on.set()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_there_from_before_is_cleaned_once_the_first_sync_succeeded(
    rig: Rig,
) -> None:
    rig.begin_sync(Changes(added=(dns(L1),)))
    await rig.wait_quiet()
    assert rig.cleaner.asked == []
    rig.end_sync()
    await rig.wait_asked(1)
    assert rig.cleaner.asked == [([dns(L1)], [])]


async def test_a_first_sync_without_udp_cleans_too(rig: Rig) -> None:
    rig.sync(Changes(added=(dns(L1, protocol=Protocol.TCP),)))
    await rig.wait_asked(1)
    assert rig.cleaner.asked == [([], [])]


async def test_an_endpoint_that_leaves_is_a_reason_and_a_quiet_sync_is_none(rig: Rig) -> None:
    rig.sync(Changes(added=(dns(L1, R1),)))
    await rig.wait_asked(1)
    rig.sync(Changes(changed=((dns(L1, R1), dns(L1)),)))
    await rig.wait_asked(2)
    assert rig.cleaner.asked[1] == ([dns(L1)], [dns(L1, R1)])
    rig.sync(Changes(added=(dns(L1, protocol=Protocol.TCP),)))
    await rig.wait_quiet()
    assert len(rig.cleaner.asked) == 2


async def test_what_a_failed_sync_owes_is_paid_by_the_next_that_succeeds(rig: Rig) -> None:
    rig.sync(Changes(added=(dns(L1, R1),)))
    await rig.wait_asked(1)
    rig.begin_sync(Changes(changed=((dns(L1, R1), dns(L1)),)))
    rig.sync(Changes(changed=((dns(L1), dns(R1)),)))
    await rig.wait_asked(2)
    assert rig.cleaner.asked[1] == ([dns(R1)], [dns(L1, R1), dns(L1)])


async def test_changes_that_are_on_their_way_are_not_paid_before_they_are_there(rig: Rig) -> None:
    """A clean-up that runs while a sync is under way knows only the table of before."""
    rig.sync(Changes(added=(dns(L1, R1),)))
    rig.begin_sync(Changes(changed=((dns(L1, R1), dns(L1)),)))
    await rig.wait_asked(1)
    rig.end_sync()
    await rig.wait_asked(2)
    assert rig.cleaner.asked == [([dns(L1, R1)], []), ([dns(L1)], [dns(L1, R1)])]


async def test_a_clean_up_that_fails_is_tried_again(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.cleaner.failures = 2
    rig.sync(Changes(added=(dns(L1),), removed=(dns(R1),)))
    await rig.wait_asked(3)
    assert rig.cleaner.asked == [([dns(L1)], [dns(R1)])] * 3
    assert capsys.readouterr().err.count("Stale UDP flows cannot be deleted") == 2


async def test_what_happens_during_a_clean_up_that_fails_is_owed_on_top(rig: Rig) -> None:
    rig.cleaner.failures = 1
    rig.cleaner.may_go_on.clear()
    rig.sync(Changes(added=(dns(L1, R1),)))
    await rig.wait_asked(1)
    rig.sync(Changes(changed=((dns(L1, R1), dns(L1)),)))
    rig.cleaner.may_go_on.set()
    await rig.wait_asked(2)
    assert rig.cleaner.asked[1] == ([dns(L1)], [dns(L1, R1)])


def test_flows_are_read_judged_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    def flow(responder: Backend) -> Flow:
        destination = pack(CLUSTER_IP) + (53).to_bytes(2, "big")
        answered_by = pack(responder.address) + responder.port.to_bytes(2, "big")
        return Flow(destination, answered_by, b"")

    deleted: list[Flow] = []

    def delete(found: Iterable[Flow]) -> int:
        deleted.extend(found)
        return len(deleted)

    monkeypatch.setattr(flows, "udp_flows", lambda _: [flow(L1), flow(R1)])
    monkeypatch.setattr(flows, "delete", delete)
    assert flows.clean(Family.IPV4, [dns(L1)], []) == 1
    assert deleted == [flow(R1)]
