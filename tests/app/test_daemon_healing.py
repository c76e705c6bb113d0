"""The whole daemon, in whose kernel endpoints fail: what it does about it, and what it shows."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from app.test_daemon import Rig
from app.test_daemon_start import events, prepared
from fakes.apiserver import FakeApiServer
from fakes.dataplane import FakeDataplane
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.serve.status.wire import DaemonStatus, FailureList
from kubeproxy.table.entries import FrontendKey
from kubeproxy.tools.client import Client
from waiting import until
from world import CLUSTER_IP, endpoint_slice, kestrel, service

ALL = ["10.64.3.11", "10.64.3.12", "10.65.7.21"]
DIALLED = FrontendKey(CLUSTER_IP, Protocol.TCP, 80)
L1, R1 = Endpoint("10.64.3.11", 8080), Endpoint("10.65.7.21", 8080)


class Failing(FakeDataplane):
    """A kernel in which connections fail when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.notify: Callable[[Sequence[Failure]], None] | None = None

    async def failures(self, notify: Callable[[Sequence[Failure]], None]) -> None:
        self.notify = notify
        await asyncio.Event().wait()

    def fail_connections(self, endpoint: Endpoint, *clients: str) -> None:
        assert self.notify is not None
        self.notify([Failure(Reason.REFUSED, each, DIALLED, endpoint, 2) for each in clients])


class FailingRig:
    """A daemon with such kernels, and three endpoints."""

    def __init__(self, server: FakeApiServer, socket: Path) -> None:
        self.server = server
        self.kernel = Failing()
        self.rig: Rig = prepared(server, f"--status-socket={socket}")
        kernels = {Family.IPV4: self.kernel, Family.IPV6: Failing()}
        self.rig.kernels.update(kernels)
        self.rig.put("Node", kestrel())
        healed = service()
        healed["metadata"] = {
            "namespace": "shop",
            "name": "cart",
            "annotations": {HEALING_ANNOTATION: "all"},
        }
        self.rig.put("Service", healed)
        self.rig.put("EndpointSlice", endpoint_slice("L1 L2 R1"))
        self._client = Client([str(socket)])

    async def status(self) -> DaemonStatus:
        return await asyncio.to_thread(self._client.get, "/status", DaemonStatus)

    async def failures(self) -> FailureList:
        return await asyncio.to_thread(self._client.get, "/status/failures", FailureList)


@pytest.fixture
async def failing(tmp_path: Path) -> AsyncIterator[FailingRig]:
    async with FakeApiServer() as server:
        failing = FailingRig(server, tmp_path / "socket")
        setup = failing.rig.setup
        failing.rig.setup = msgspec.structs.replace(setup, serves=True)
        async with failing.rig.running():
            await until(lambda: failing.rig.backends() == ALL)
            await until(lambda: failing.kernel.notify is not None)
            yield failing


async def test_an_endpoint_that_is_left_out_is_shown_and_told(failing: FailingRig) -> None:
    failing.kernel.fail_connections(L1, "10.64.3.50", "192.0.2.50")
    before = time.time()
    await until(lambda: failing.rig.backends() == ALL[1:])

    (out,) = (await failing.status()).families[0].left_out
    assert (out.service_port, out.endpoint) == ("shop/cart:http", "10.64.3.11:8080")
    assert (out.failures, out.clients, out.times) == (4, 2, 1)
    # It is a time of the wall clock, five seconds after the failure.
    assert abs(datetime.fromisoformat(out.until).timestamp() - before - 5) < 2

    found = await failing.failures()
    assert [(each.number, each.client) for each in found.failures] == [
        (1, "10.64.3.50"),
        (2, "192.0.2.50"),
    ]

    await until(lambda: any(each.reason == "EndpointEjected" for each in events(failing.server)))
    (told,) = (each for each in events(failing.server) if each.reason == "EndpointEjected")
    assert told.regarding["name"] == "cart"
    assert told.note == (
        "node kestrel: 10.64.3.11:8080 of port http is left out for 5 s:"
        " 4 connections of 2 clients were refused"
    )


async def test_one_that_is_not_left_out_because_another_is(failing: FailingRig) -> None:
    failing.kernel.fail_connections(L1, "10.64.3.50", "192.0.2.50")
    await until(lambda: failing.rig.backends() == ALL[1:])
    failing.kernel.fail_connections(R1, "10.64.3.50", "192.0.2.50")
    family = (await failing.status()).families[0]
    assert [each.endpoint for each in family.left_out] == ["10.64.3.11:8080"]
    assert family.at_ejection_limit == ("shop/cart:http",)
    assert family.failed_connections == 8
