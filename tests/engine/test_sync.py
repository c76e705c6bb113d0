import asyncio
import math
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from fakes.dataplane import FakeDataplane
from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.engine.observer import (
    LoopStarted,
    Observation,
    SyncEnded,
    SyncRequested,
    SyncStarted,
)
from kubeproxy.engine.schedule import Outcome, Schedule
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.table import build, limits
from kubeproxy.table.compile import compile_service
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.node import NodeView
from waiting import until
from world import CART, Document, Mode, cluster_of, endpoint_slice, node, service

NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)


class Rig:
    """A sync of one family with a fake kernel."""

    def __init__(self, schedule: Schedule | None = None, cluster: Cluster | None = None) -> None:
        self.cluster = cluster or cluster_of(service(), endpoint_slice("L1"))
        self.kernel = FakeDataplane()
        self.node = node(Mode.NFTABLES)
        self.observations: list[Observation] = []
        self.sync = FamilySync(
            self.cluster,
            Family.IPV4,
            SyncTarget(self.kernel, notify=self.observations.append),
            schedule or Schedule(0.0, 30.0, 3600.0),
            lambda: replace(self.node, zone=self.cluster.zone),
        )

    def change(self, endpoints: str) -> None:
        obj = convert(Kind.ENDPOINT_SLICE, endpoint_slice(endpoints))
        touched = self.cluster.upsert(Kind.ENDPOINT_SLICE, obj)
        self.sync.touch(key for _, key in touched.services)

    @property
    def backends(self) -> list[str]:
        return [backend.address for backend in self.kernel.entries[NAME].cluster]


async def test_the_first_sync_is_full_and_later_ones_carry_only_changes() -> None:
    rig = Rig()
    await rig.sync.sync()
    rig.change("L1 R1")
    await rig.sync.sync()
    assert [update.full for update in rig.kernel.updates] == [True, False]
    assert len(rig.kernel.updates[1].changes.changed) == 1
    assert rig.backends == ["10.64.3.11", "10.65.7.21"]


async def test_nothing_is_asked_of_the_kernel_when_nothing_changed() -> None:
    rig = Rig()
    await rig.sync.sync()
    rig.sync.touch([CART, ObjectKey("shop", "unknown")])
    await rig.sync.sync()
    assert len(rig.kernel.updates) == 1


async def test_a_changed_node_is_applied_although_no_entry_changed() -> None:
    rig = Rig()
    await rig.sync.sync()
    rig.node = node(Mode.IPTABLES)
    await rig.sync.sync()
    assert rig.kernel.updates[1].node == replace(rig.node, zone=rig.cluster.zone)
    assert not rig.kernel.updates[1].changes


async def test_a_failed_sync_is_followed_by_a_full_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    await rig.sync.sync()
    rig.kernel.fail = 1
    rig.change("R1")
    await rig.sync.sync()
    assert "Sync failed, will try again" in capsys.readouterr().err
    assert rig.sync.failure == "no buffer space"
    rig.change("R1 R2")
    await rig.sync.sync()
    assert rig.sync.failure == ""
    assert [update.full for update in rig.kernel.updates] == [True, False, True]
    assert rig.backends == ["10.65.7.21", "10.66.9.31"]


async def test_a_service_that_is_refused_does_not_affect_others_and_is_retried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    rig.cluster.upsert(
        Kind.SERVICE, convert(Kind.SERVICE, service({"clusterIP": "10.112.0.9"}, name="basket"))
    )
    rig.kernel.refuse = {"cart"}
    await rig.sync.sync()
    assert [name.service for name in rig.kernel.entries] == ["basket"]
    assert "the kernel does not want it" in capsys.readouterr().err
    await rig.sync.sync()
    assert [entry.name for entry in rig.kernel.updates[1].again] == [NAME]
    assert not rig.kernel.updates[1].full
    assert capsys.readouterr().err == ""  # logged once
    rig.kernel.refuse = set()
    rig.change("R1")  # carried by the change itself, not twice
    await rig.sync.sync()
    assert rig.kernel.updates[2].again == ()
    assert rig.backends == ["10.65.7.21"]
    assert "programmed again" in capsys.readouterr().err
    assert rig.sync.progress.failures == 0


async def test_a_refused_service_that_goes_away_is_forgotten() -> None:
    rig = Rig()
    rig.kernel.refuse = {"cart"}
    await rig.sync.sync()
    touched = rig.cluster.delete(Kind.SERVICE, CART)
    rig.sync.touch(key for _, key in touched.services)
    await rig.sync.sync()
    assert rig.kernel.updates[1].again == ()
    assert rig.sync.progress.failures == 0


async def test_two_services_with_one_address_are_named_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    rig.cluster.upsert(Kind.SERVICE, convert(Kind.SERVICE, service(name="zz")))
    await rig.sync.sync()
    await rig.sync.sync()
    logged = capsys.readouterr().err
    assert logged.count("claimed by two services") == 1
    assert 'servedBy="shop/cart:http" notServed="shop/zz:http"' in logged


async def test_services_that_claim_thousands_of_addresses_do_not_fill_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    many = {"externalIPs": [f"198.18.{number >> 8}.{number & 255}" for number in range(3000)]}
    for name, cluster_ip in (("yy", "10.112.0.98"), ("zz", "10.112.0.99")):
        document = service({**many, "clusterIP": cluster_ip}, name=name)
        rig.cluster.upsert(Kind.SERVICE, convert(Kind.SERVICE, document))
    await rig.sync.sync()
    logged = capsys.readouterr().err
    assert logged.count("Address is claimed by two services") == 10
    assert "Further addresses are claimed by two services" in logged
    assert "count=2990" in logged


async def test_the_loop_waits_until_it_is_opened_and_coalesces_requests() -> None:
    rig = Rig(Schedule(0.05, 30.0, 3600.0))
    running = asyncio.ensure_future(rig.sync.run())
    rig.change("L1 R1")
    await asyncio.sleep(0.02)
    assert rig.kernel.updates == []
    rig.sync.open()
    await until(lambda: len(rig.kernel.updates) == 1)
    for endpoints in ("R1", "L1", "R2"):
        rig.change(endpoints)
    await until(lambda: len(rig.kernel.updates) == 2)
    assert rig.backends == ["10.66.9.31"]
    running.cancel()
    assert await asyncio.gather(running, return_exceptions=True)


async def test_the_loop_tries_a_failed_first_sync_again_by_itself() -> None:
    rig = Rig(Schedule(0.0, 0.01, 3600.0))
    rig.kernel.fail = 3
    running = asyncio.ensure_future(rig.sync.run())
    rig.sync.open()
    await until(lambda: bool(rig.kernel.entries))
    assert len(rig.kernel.updates) == 4
    running.cancel()
    assert await asyncio.gather(running, return_exceptions=True)


async def test_full_syncs_come_by_themselves() -> None:
    rig = Rig(Schedule(0.0, 30.0, 0.02))
    running = asyncio.ensure_future(rig.sync.run())
    rig.sync.open()
    await until(lambda: len(rig.kernel.updates) >= 3)
    assert all(update.full for update in rig.kernel.updates)
    running.cancel()
    assert await asyncio.gather(running, return_exceptions=True)


async def test_observers_are_notified() -> None:
    rig = Rig()
    rig.change("L1 R1")
    assert rig.observations == []  # nothing is wanted before the cluster is known
    rig.sync.open()
    running = asyncio.create_task(rig.sync.run())
    await until(lambda: len(rig.kernel.updates) == 1)
    rig.sync.invalidate(None)
    await until(lambda: len(rig.kernel.updates) == 2)
    running.cancel()
    kinds = [type(observation) for observation in rig.observations]
    sync = [SyncRequested, SyncStarted, SyncEnded]
    assert kinds == [SyncRequested, LoopStarted, *sync[1:], *sync]


# --- large objects ----------------------------------------------------------------------------


def ports(count: int) -> list[Document]:
    return [{"name": f"p{number}", "port": number + 1} for number in range(count)]


MANY_PORTS = [
    service({"ports": ports(20_000)}),
    endpoint_slice("L1 R1", {"ports": ports(20_000)}),
]
ONE_CLAIM = {
    "ports": ports(300),
    "externalIPs": [f"198.18.{number >> 8}.{number & 255}" for number in range(300)],
}
SAME_ADDRESSES = [
    service({**ONE_CLAIM, "clusterIP": "10.112.0.98"}, name="yy"),
    service({**ONE_CLAIM, "clusterIP": "10.112.0.99"}, name="zz"),
]


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param(MANY_PORTS, id="twenty-thousand-ports"),
        pytest.param(SAME_ADDRESSES, id="the-same-ninety-thousand-addresses-twice"),
    ],
)
async def test_other_tasks_run_while_large_objects_are_compiled(
    documents: list[Document],
) -> None:
    rig = Rig(cluster=cluster_of(*documents))
    turns = 0

    async def probe() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    probing = asyncio.create_task(probe())
    await rig.sync.sync()
    probing.cancel()
    assert rig.kernel.entries
    assert turns > 20


async def test_an_event_in_the_midst_of_a_sync_is_for_the_next() -> None:
    rig = Rig(cluster=cluster_of(*MANY_PORTS))
    syncing = asyncio.create_task(rig.sync.sync())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert rig.kernel.updates == []
    rig.sync.touch(key for _, key in rig.cluster.delete(Kind.SERVICE, CART).services)
    await syncing
    assert rig.sync.progress.requested
    await rig.sync.sync()
    assert rig.kernel.entries == {}


async def test_a_service_that_asks_for_too_much_is_logged_once_until_it_asks_for_less(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "MOST", limits.Size(10, 1, 10))
    rig = Rig(cluster=cluster_of(service(), endpoint_slice("L1 R1")))
    await rig.sync.sync()
    rig.change("L1 R1 R2")
    await rig.sync.sync()
    logged = capsys.readouterr().err
    assert logged.count("Service exceeds a limit, some of its ports are not served") == 1
    assert 'service="shop/cart"' in logged
    ((key, text),) = [(problem.key, problem.text) for problem in rig.sync.problems]
    assert key == CART
    assert text.startswith("0 of its 1 ports are served, in their order: it asks for 3 backends")
    assert rig.kernel.entries == {}
    rig.change("R1")
    await rig.sync.sync()
    assert rig.sync.problems == []
    assert rig.backends == ["10.65.7.21"]


# --- unexpected errors -------------------------------------------------------------------------


def failing_for(name: str, compiled: Callable[..., object]) -> Callable[..., object]:
    """The compiler, with a mistake that shows with one Service."""

    def compile_(service: ObjectKey, *rest: object) -> object:
        if service.name == name:
            raise ZeroDivisionError("by nothing")
        return compiled(service, *rest)

    return compile_


async def test_a_service_that_cannot_be_compiled_stays_as_it_was_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = Rig()
    await rig.sync.sync()
    other = service({"clusterIP": "10.112.0.9"}, name="basket")
    rig.cluster.upsert(Kind.SERVICE, convert(Kind.SERVICE, other))
    with monkeypatch.context() as patched:
        patched.setattr(build, "compile_service", failing_for("cart", compile_service))
        rig.change("R1")
        rig.sync.touch([ObjectKey("shop", "basket")])
        await rig.sync.sync()
        rig.sync.touch([CART])
        await rig.sync.sync()
    logged = capsys.readouterr().err
    assert logged.count("Service cannot be compiled") == 1
    assert "ZeroDivisionError: 'by nothing'" in logged
    assert 'service="shop/cart"' in logged
    assert [problem.key for problem in rig.sync.problems] == [CART]
    assert {"cart", "basket"} == {name.service for name in rig.kernel.entries}
    assert rig.backends == ["10.64.3.11"]
    rig.sync.touch([CART])
    await rig.sync.sync()
    assert rig.sync.problems == []
    assert rig.backends == ["10.65.7.21"]


async def test_a_bug_is_a_failed_sync_with_a_trace_and_is_retried(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig(Schedule(0.0, 0.01, 3600.0))
    rig.kernel.mistakes = [KeyError("what"), RecursionError("deep")]
    running = asyncio.ensure_future(rig.sync.run())
    rig.sync.open()
    await until(lambda: bool(rig.kernel.entries))
    running.cancel()
    assert await asyncio.gather(running, return_exceptions=True)
    logged = capsys.readouterr().err
    assert logged.count("Sync failed in an unexpected way") == 2
    assert "Traceback (most recent call last)" in logged
    outcomes = [each.outcome for each in rig.observations if isinstance(each, SyncEnded)]
    assert outcomes == [Outcome.FAILED, Outcome.FAILED, Outcome.OK]
    assert [update.full for update in rig.kernel.updates] == [True, True, True]


@pytest.mark.parametrize("error", [KernelError("no addresses"), ValueError("no addresses")])
async def test_a_node_that_cannot_be_looked_at_fails_the_sync_and_loses_nothing(
    error: Exception,
) -> None:
    rig = Rig()
    await rig.sync.sync()
    look, rig.sync._view = rig.sync._view, Mistaken(error)
    rig.change("R1")
    await rig.sync.sync()
    assert "no addresses" in rig.sync.failure
    rig.sync._view = look
    await rig.sync.sync()
    assert rig.sync.failure == ""
    assert rig.backends == ["10.65.7.21"]


class Mistaken:
    """Raises, whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self) -> NodeView:
        raise self._error


async def test_events_that_wait_are_handled_before_the_next_sync() -> None:
    """Each sync has its price: one for all of them costs less than one for every few."""
    rig = Rig()
    rig.sync._busy_until = math.inf
    collecting = asyncio.create_task(rig.sync._collect())
    for _ in range(20):
        rig.change("R1")
        await asyncio.sleep(0)
        assert not collecting.done()
    await until(collecting.done)


async def test_after_a_pause_no_event_is_waited_for() -> None:
    rig = Rig()
    await rig.sync.sync()
    rig.sync._busy_until = asyncio.get_running_loop().time()
    collecting = rig.sync._collect()
    with pytest.raises(StopIteration):
        collecting.send(None)


async def test_the_parts_of_a_sync_are_timed_at_4(capsys: pytest.CaptureFixture[str]) -> None:
    rig = Rig()
    try:
        klog.set_verbosity(4)
        await rig.sync.sync()
    finally:
        klog.configure(klog.LogSettings())
    logged = capsys.readouterr().err
    assert re.search(r'"Compiled services" ipFamily="IPv4" services=\d+ seconds=', logged)
    assert re.search(r'"Synced" ipFamily="IPv4" full=true .* failed=0 seconds=', logged)
