"""How a run begins: waiting for the Node, preparing the machine, recording events."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest

from app.test_daemon import Rig
from fakes.apiserver import FakeApiServer
from kubeproxy.base.errors import KernelError, KubeProxyError
from kubeproxy.base.inet import Family
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.cluster.watch.apiserver import ApiServer
from kubeproxy.serve.events.recorder import Recorder
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.status.wire import DaemonStatus
from kubeproxy.table.node import NodeView
from kubeproxy.tools.client import Client
from waiting import until
from world import NODE_NAME, endpoint_slice, kestrel, service


class RecordedEvent(msgspec.Struct):
    """An event, as far as a test looks at it."""

    reason: str
    regarding: dict[str, str]
    note: str = ""


def prepared(server: FakeApiServer, *flags: str) -> Rig:
    rig = Rig(server, *flags)
    assert isinstance(rig.setup.source, ApiServer)
    rig.setup = msgspec.structs.replace(
        rig.setup, recorder=Recorder("kestrel.example", rig.setup.source.write)
    )
    return rig


def events(server: FakeApiServer) -> list[RecordedEvent]:
    return msgspec.convert(server.objects("Event"), list[RecordedEvent])


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as server:
        rig = Rig(server)
        rig.put("Node", kestrel())
        rig.put("Service", service())
        rig.put("EndpointSlice", endpoint_slice("L1"))
        yield server


async def test_a_server_that_does_not_tell_of_nodes_is_waited_for(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubeproxy.engine.own_node.NODE_IP_WAIT", 0.01)
    server.faults.status("nodes", 503, times=2)
    rig = Rig(server)
    async with rig.running() as task:
        await until(lambda: sum("nodes" in request.path for request in server.requests) > 1)
        await asyncio.sleep(0.1)
        assert not task.done()
        assert rig.kernels[Family.IPV4].updates == []
        await until(lambda: rig.backends() == ["10.64.3.11"])
    assert "Timed out" not in capsys.readouterr().err


async def test_the_status_socket_says_what_is_waited_for(
    server: FakeApiServer, tmp_path: Path
) -> None:
    server.faults.status("nodes", 503, times=None)
    rig = Rig(server, f"--status-socket={tmp_path}/status.sock")
    ask = Client([f"{tmp_path}/status.sock"])

    async def gaps(*expected: str) -> DaemonStatus:
        """The status once it has these gaps."""
        async with asyncio.timeout(10):
            while True:
                status = await asyncio.to_thread(ask.get, "/status", DaemonStatus)
                if expected == tuple(gap.what for gap in status.gaps):
                    return status

    async with rig.running():
        await until((tmp_path / "status.sock").exists)
        waiting = await gaps("everything")
        assert waiting.families[0].last_sync is None
        assert waiting.waits_for == f"its source to say whether there is a Node {NODE_NAME}"
        assert 0 < waiting.waits_seconds < 10
        assert "503" in waiting.gaps[0].reason
        server.faults.clear()
        await until(lambda: rig.backends() == ["10.64.3.11"])
        assert (await gaps()).waits_for == ""
        await server.pause()
        await gaps("everything")
        assert rig.backends() == ["10.64.3.11"]
    assert not (tmp_path / "status.sock").exists()


async def test_a_node_that_comes_late_ends_the_wait(server: FakeApiServer, tmp_path: Path) -> None:
    server.delete("Node", "", NODE_NAME)
    rig = Rig(server, f"--status-socket={tmp_path}/status.sock")
    ask = Client([f"{tmp_path}/status.sock"])
    async with rig.running():
        await server.wait_watchers(4)
        assert rig.kernels[Family.IPV4].updates == []
        status = await asyncio.to_thread(ask.get, "/status", DaemonStatus)
        assert status.waits_for == f"the addresses of Node {NODE_NAME}"
        assert not status.node_found
        rig.put("Node", kestrel())
        await until(lambda: rig.backends() == ["10.64.3.11"])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"metadata": {"name": NODE_NAME, "deletionTimestamp": "2026-11-16T00:00:00Z"}},
            id="being-deleted-behind-a-finalizer",
        ),
        pytest.param(
            {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}},
            id="tainted-and-without-pod-ranges",
        ),
    ],
)
async def test_a_change_of_the_node_that_is_no_reason_to_end(
    server: FakeApiServer, change: Mapping[str, object]
) -> None:
    rig = Rig(server)
    async with rig.running() as task:
        await until(lambda: rig.backends() == ["10.64.3.11"])
        rig.put("Node", {**kestrel(), **change})
        rig.put("EndpointSlice", endpoint_slice("R1"))
        await until(lambda: rig.backends() == ["10.65.7.21"])
        assert not task.done()


async def test_changed_pod_ranges_call_for_a_restart_in_node_cidr_mode(
    server: FakeApiServer,
) -> None:
    rig = Rig(server, "--detect-local-mode=NodeCIDR")
    async with rig.running() as task:
        await until(lambda: rig.backends() == ["10.64.3.11"])
        rig.put("Node", {**kestrel(), "spec": {"podCIDRs": ["10.64.4.0/24"]}})
        with pytest.raises(KubeProxyError, match="its pod CIDRs changed from"):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("init_only", [False, True])
async def test_the_machine_is_prepared_once_before_the_first_sync(
    server: FakeApiServer, init_only: bool
) -> None:
    rig = Rig(server)
    calls: list[Mapping[Family, NodeView]] = []

    def prepare(nodes: Mapping[Family, NodeView]) -> None:
        assert rig.kernels[Family.IPV4].updates == []
        calls.append(nodes)

    rig.setup = msgspec.structs.replace(rig.setup, prepare=prepare, init_only=init_only)
    async with rig.running() as task:
        if init_only:
            await asyncio.wait_for(task, 10)
        else:
            await until(lambda: rig.backends() == ["10.64.3.11"])
    assert [set(Family)] == [set(nodes) for nodes in calls]


async def test_a_machine_that_cannot_be_prepared_is_the_end(server: FakeApiServer) -> None:
    def refuse(_: Mapping[Family, NodeView]) -> None:
        raise KernelError("cannot set sysctl")

    rig = Rig(server)
    rig.setup = msgspec.structs.replace(rig.setup, prepare=refuse)
    async with rig.running() as task:
        with pytest.raises(KernelError, match="cannot set sysctl"):
            await asyncio.wait_for(task, 10)
    assert rig.kernels[Family.IPV4].updates == []


async def test_the_cluster_is_told_of_the_start_and_of_who_started(server: FakeApiServer) -> None:
    async with prepared(server).running():
        await until(lambda: bool(events(server)))
    node = {"kind": "Node", "apiVersion": "v1", "name": NODE_NAME}
    note = f"kubeproxy {VERSION} (kube-proxy {KUBERNETES_VERSION}) in nftables mode"
    assert events(server) == [RecordedEvent("Starting", node, note)]


async def test_the_log_says_once_how_much_was_programmed_and_when(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = prepared(server)
    logged: list[str] = []
    async with rig.running():

        def is_said() -> bool:
            logged.append(capsys.readouterr().err)
            return "all services" in "".join(logged)

        await until(is_said)
        rig.put("EndpointSlice", endpoint_slice("R1"))
        await until(lambda: rig.backends() == ["10.65.7.21"])
    logged.append(capsys.readouterr().err)
    found = re.findall(r'"\w+ all services" seconds=(\S+) (.*)', "".join(logged))
    assert [rest for _, rest in found] == [
        'ipFamilies=["IPv4","IPv6"] services=1 frontends=1 endpoints=1 failed=0'
    ]
    assert float(found[0][0]) > 0


async def test_a_server_that_takes_no_events_disturbs_nothing(server: FakeApiServer) -> None:
    server.faults.status("events", 403, times=1000)
    rig = prepared(server)
    async with rig.running():
        await until(lambda: any(request.method == "POST" for request in server.requests))
        rig.put("EndpointSlice", endpoint_slice("R1"))
        await until(lambda: rig.backends() == ["10.65.7.21"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("healthz", "FailedToStartProxierHealthcheck", id="health"),
        pytest.param("metrics", "FailedToStartMetricServer", id="metrics"),
    ],
)
async def test_a_port_in_use_that_is_the_end_is_told_first(
    server: FakeApiServer, name: str, reason: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = (f"--{name}-bind-address=127.0.0.1", f"--{name}-port={taken.getsockname()[1]}")
        rig = prepared(server, *where, "--bind-address-hard-fail")
        async with rig.running() as task:
            with pytest.raises(ListenError, match="address already in use"):
                await asyncio.wait_for(task, 10)
    notes = {event.reason: event.note for event in events(server)}
    assert "address already in use" in notes[reason]


async def test_a_health_check_port_in_use_is_told_as_an_event_of_the_service(
    server: FakeApiServer,
) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        rig = prepared(server, "--nodeport-addresses=0.0.0.0/0")
        spec = {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "healthCheckNodePort": port,
        }
        rig.put("Service", service(spec, vips=["203.0.113.7"]))
        async with rig.running():
            await until(
                lambda: any(event.regarding["kind"] == "Service" for event in events(server))
            )
    failure = next(event for event in events(server) if event.regarding["kind"] == "Service")
    assert failure.reason == "FailedToStartServiceHealthcheck"
    assert f'node kestrel failed to start healthcheck "shop/cart" on port {port}: ' in failure.note
    assert "address already in use" in failure.note
