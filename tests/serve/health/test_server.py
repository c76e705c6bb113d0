import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from fakes.apiserver import FakeApiServer
from fakes.dataplane import FakeDataplane
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import Setup
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine.observer import LoopStarted, SyncRequested, SyncStarted
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.health.state import Instant
from kubeproxy.serve.http.listening import listen
from kubeproxy.serve.http.request import Request
from waiting import until
from world import NODE_NAME, endpoint_slice, kestrel, service


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> Instant:
        return Instant(self.seconds, int(self.seconds * 1e9))


def ask(health: Health, path: str) -> tuple[int, dict[str, object]]:
    answer = {"/healthz": health.healthz, "/livez": health.livez}[path](Request("GET", path))
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def test_what_waits_and_for_how_long() -> None:
    clock = Clock()
    health = Health(60.0, lambda: True, clock)
    assert (health.waiting(Family.IPV4), health.keeps_up(Family.IPV4)) == (None, True)
    health.observe(LoopStarted(Family.IPV4))
    assert (health.waiting(Family.IPV4), health.keeps_up(Family.IPV4)) == (None, True)
    health.observe(SyncRequested(Family.IPV4, 1))
    clock.seconds += 61
    assert (health.waiting(Family.IPV4), health.keeps_up(Family.IPV4)) == (61.0, False)
    assert health.keeps_up(Family.IPV6)


def test_the_pages_follow_what_happens_and_are_counted() -> None:
    clock, eligible = Clock(), [True]
    health = Health(60.0, lambda: eligible[0], clock)
    every = {(path, code) for path in ("/healthz", "/livez") for code in (200, 503)}
    assert dict.fromkeys(every, 0) == dict(health.answered)
    assert ask(health, "/healthz")[0] == 200
    for observation in (LoopStarted(Family.IPV4), SyncRequested(Family.IPV4, 1)):
        health.observe(observation)
    clock.seconds += 59
    assert health.healthy
    assert (ask(health, "/healthz")[0], ask(health, "/livez")[0]) == (200, 200)
    eligible[0] = False
    assert (ask(health, "/healthz")[0], ask(health, "/livez")[0]) == (503, 200)
    health.observe(SyncStarted(Family.IPV4))
    clock.seconds += 1
    assert not health.healthy
    assert (ask(health, "/healthz")[0], ask(health, "/livez")[0]) == (503, 503)
    counted = {
        ("/healthz", 200): 2,
        ("/healthz", 503): 2,
        ("/livez", 200): 2,
        ("/livez", 503): 1,
    }
    assert counted == health.answered


# --- the daemon, on a fake API server with a fake kernel --------------------------------------


class Rig:
    """A daemon whose health port is on loopback."""

    def __init__(self, server: FakeApiServer, *flags: str) -> None:
        self.server = server
        self.kernels = {family: FakeDataplane() for family in Family}
        with listen("127.0.0.1", 0) as free:
            self.port: int = free.getsockname()[1]
        periods = ("--iptables-min-sync-period=0s", "--iptables-sync-period=100ms")
        where = (f"--healthz-bind-address=127.0.0.1:{self.port}", "--status-socket=")
        loaded = load(parse_flags([*periods, *where, *flags]), MODES)
        self.setup = Setup(
            config=msgspec.structs.replace(loaded.config, metrics_bind_address="127.0.0.1:0"),
            gates=loaded.gates,
            node_name=NODE_NAME,
            source=ApiServer(Access(server=server.url), WatchSettings(node_name=NODE_NAME)),
            families=tuple(Family),
            dataplane=self.kernels.__getitem__,
            cleans_flows=False,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Future[None]"]:
        task = asyncio.ensure_future(Daemon(self.setup).run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def ask(self, path: str) -> tuple[int, dict[str, object]]:
        """Status and body; (0, {}) while no process listens."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            return 0, {}
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split()[1]), json.loads(body)

    async def wait(self, path: str, right: Callable[[int, dict[str, object]], bool]) -> None:
        async with asyncio.timeout(10):
            while not right(*await self.ask(path)):
                await asyncio.sleep(0.01)

    def put(self, kind: str, api: str, document: dict[str, object]) -> None:
        self.server.put({"kind": kind, "apiVersion": api, **document})


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        yield server


def statuses(body: dict[str, object]) -> dict[str, bool]:
    status = body.get("status", {})
    assert isinstance(status, dict)
    return {family: each["healthy"] for family, each in status.items()}


async def test_from_the_start_to_the_end_of_a_node(server: FakeApiServer) -> None:
    rig = Rig(server)
    rig.put("Service", "v1", service())
    async with rig.running():
        await until(lambda: any("nodes" in request.path for request in server.requests))
        assert await rig.ask("/healthz") == (0, {})
        rig.put("Node", "v1", kestrel())
        await rig.wait("/healthz", lambda status, _: status == 200)

        rig.kernels[Family.IPV4].fail = 1000
        rig.put("Service", "v1", service({"clusterIP": "10.112.0.22"}, name="other"))
        late = {"IPv4": False, "IPv6": True}
        await rig.wait("/healthz", lambda s, body: s == 503 and statuses(body) == late)
        status, body = await rig.ask("/livez")
        assert (status, body["healthy"]) == (503, False)
        assert "nodeEligible" not in body

        rig.kernels[Family.IPV4].fail = 0
        await rig.wait("/livez", lambda status, _: status == 200)

        spec: dict[str, object] = {
            "podCIDRs": ["10.64.3.0/24"],
            "taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}],
        }
        rig.put("Node", "v1", {**kestrel(), "spec": spec})
        await rig.wait("/healthz", lambda status, _: status == 503)
        status, body = await rig.ask("/healthz")
        assert (status, body["healthy"], body["nodeEligible"]) == (503, True, False)
        assert (await rig.ask("/livez"))[0] == 200


async def test_a_first_sync_that_fails_shows_and_heals(server: FakeApiServer) -> None:
    rig = Rig(server)
    rig.put("Node", "v1", kestrel())
    rig.put("Service", "v1", service())
    rig.kernels[Family.IPV4].fail = 1000
    async with rig.running():
        late = {"IPv4": False, "IPv6": True}
        for path in ("/livez", "/healthz"):
            await rig.wait(path, lambda s, body: s == 503 and statuses(body) == late)
        rig.kernels[Family.IPV4].fail = 0
        for path in ("/livez", "/healthz"):
            await rig.wait(path, lambda status, _: status == 200)


async def test_one_bad_service_does_not_take_the_node_out(server: FakeApiServer) -> None:
    rig = Rig(server)
    rig.put("Node", "v1", kestrel())
    rig.put("Service", "v1", service())
    rig.put("EndpointSlice", "discovery.k8s.io/v1", endpoint_slice("L1"))
    rig.kernels[Family.IPV4].refuse = {"cart"}
    async with rig.running():
        await until(lambda: len(rig.kernels[Family.IPV4].updates) > 3)
        assert (await rig.ask("/healthz"))[0] == 200


async def test_what_is_not_known_yet_is_not_late(server: FakeApiServer) -> None:
    server.faults.status("endpointslices", 403, times=1000)
    rig = Rig(server)
    rig.put("Node", "v1", kestrel())
    rig.put("Service", "v1", service())
    async with rig.running():
        await rig.wait("/healthz", lambda status, _: status == 200)
        rig.put("Service", "v1", service(name="other"))
        await asyncio.sleep(0.4)
        assert (await rig.ask("/healthz"))[0] == 200
        assert rig.kernels[Family.IPV4].updates == []


async def test_with_hard_fail_a_port_in_use_ends_the_daemon(server: FakeApiServer) -> None:
    rig = Rig(server, "--bind-address-hard-fail")
    rig.put("Node", "v1", kestrel())
    with listen("127.0.0.1", rig.port):
        async with rig.running() as task:
            with pytest.raises(OperatorError, match="healthz server failed: failed to start"):
                await asyncio.wait_for(asyncio.shield(task), 10)
