import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec
import pytest
import yaml

from fakes.apiserver import FakeApiServer
from fakes.dataplane import FakeDataplane
from kubeproxy.app import daemon
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import Setup
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.manifests.source import Manifests
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES
from kubeproxy.engine import own_node
from kubeproxy.engine.own_node import RestartNeeded
from waiting import until
from world import NODE_ADDRESSES, NODE_NAME, endpoint_slice, kestrel, service

API = {
    "Service": "v1",
    "Node": "v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "ServiceCIDR": "networking.k8s.io/v1",
}


def typed(kind: str, document: Mapping[str, object]) -> dict[str, object]:
    return {"kind": kind, "apiVersion": API[kind], **document}


class Rig:
    """A daemon on a fake API server with a fake kernel for each family."""

    def __init__(self, server: FakeApiServer, *flags: str) -> None:
        self.server = server
        self.kernels = {family: FakeDataplane() for family in Family}
        loaded = load(
            parse_flags(
                [
                    "--iptables-min-sync-period=0s",
                    "--healthz-port=0",
                    "--metrics-bind-address=127.0.0.1:0",
                    "--status-socket=",
                    *flags,
                ]
            ),
            MODES,
        )
        self.setup = Setup(
            config=loaded.config,
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

    def put(self, kind: str, document: Mapping[str, object]) -> None:
        self.server.put(typed(kind, document))

    def backends(self, family: Family = Family.IPV4) -> list[str]:
        return [
            backend.address
            for entry in self.kernels[family].entries.values()
            for backend in entry.cluster
        ]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with FakeApiServer() as server:
        rig = Rig(server)
        rig.put("Node", kestrel())
        rig.put("Service", service())
        rig.put("EndpointSlice", endpoint_slice("L1"))
        yield rig


async def test_the_kernel_follows_the_cluster(rig: Rig) -> None:
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
        rig.put("EndpointSlice", endpoint_slice("L1 R1"))
        await until(lambda: rig.backends() == ["10.64.3.11", "10.65.7.21"])
        update = rig.kernels[Family.IPV4].updates[-1]
        assert not update.full
        assert "198.51.100.10/32" in map(str, update.node.node_port_ranges)
        rig.server.delete("Service", "shop", "cart")
        await until(lambda: rig.backends() == [])


@pytest.mark.parametrize(
    ("mode", "besides"),
    [pytest.param("ipvs", "kube-ipvs0", id="ipvs"), pytest.param("iptables", "", id="iptables")],
)
async def test_addresses_of_services_are_not_those_of_the_node(
    mode: str, besides: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()

    def addresses(family: Family, besides: str) -> tuple[str, ...]:
        asked.add(besides)
        return NODE_ADDRESSES[family]

    async def watch(_changed: object, besides: str) -> None:
        asked.add(besides)

    monkeypatch.setattr(own_node, "interface_addresses", addresses)
    monkeypatch.setattr(daemon, "watch_addresses", watch)
    async with FakeApiServer() as server:
        rig = Rig(server, f"--proxy-mode={mode}")
        rig.put("Node", kestrel())
        async with rig.running():
            await until(lambda: bool(rig.kernels[Family.IPV6].updates))
    assert asked == {besides}


async def test_nothing_is_applied_before_services_and_slices_are_known(rig: Rig) -> None:
    rig.server.faults.status("endpointslices", 403, times=1000)
    async with rig.running():
        await until(lambda: any("endpointslices" in r.path for r in rig.server.requests))
        await asyncio.sleep(0.1)
        assert rig.kernels[Family.IPV4].updates == []


async def test_losing_the_api_server_loses_nothing(rig: Rig) -> None:
    async with rig.running() as task:
        await until(lambda: rig.backends() == ["10.64.3.11"])
        await rig.server.pause()
        updates = len(rig.kernels[Family.IPV4].updates)
        await asyncio.sleep(0.3)
        assert not task.done()
        assert rig.backends() == ["10.64.3.11"]
        assert len(rig.kernels[Family.IPV4].updates) == updates
        rig.put("EndpointSlice", endpoint_slice("R2"))
        await rig.server.resume()
        await until(lambda: rig.backends() == ["10.66.9.31"])


async def test_a_family_that_fails_does_not_stop_the_other(rig: Rig) -> None:
    rig.kernels[Family.IPV6].fail = 1000
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
        rig.put("EndpointSlice", endpoint_slice("R1"))
        await until(lambda: rig.backends() == ["10.65.7.21"])
        assert rig.kernels[Family.IPV6].entries == {}


async def test_service_ranges_reach_the_kernel_at_once(rig: Rig) -> None:
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
        rig.put("ServiceCIDR", {"metadata": {"name": "k"}, "spec": {"cidrs": ["10.112.0.0/16"]}})
        updates = rig.kernels[Family.IPV4].updates
        await until(lambda: bool(updates[-1].node.service_cidrs))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.11"}]}},
            "its IPs changed from ['198.51.100.10', '2001:db8:aa::10'] to ['198.51.100.11']",
            id="other-ip",
        ),
        pytest.param(None, "it is being deleted", id="deleted"),
    ],
)
async def test_a_changed_node_calls_for_a_restart(
    rig: Rig, change: Mapping[str, object] | None, message: str
) -> None:
    async with rig.running() as task:
        await until(lambda: rig.backends() == ["10.64.3.11"])
        if change is None:
            rig.server.delete("Node", "", NODE_NAME)
        else:
            rig.put("Node", {**kestrel(), **change})
        with pytest.raises(RestartNeeded) as caught:
            await asyncio.wait_for(task, 10)
    assert str(caught.value) == f'node "kestrel": {message}'


async def test_a_new_zone_is_followed_without_a_restart(rig: Rig) -> None:
    rig.put("EndpointSlice", endpoint_slice("L1@z-east R1@z-west"))
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
        moved = {"name": NODE_NAME, "labels": {"topology.kubernetes.io/zone": "z-west"}}
        rig.put("Node", {**kestrel(), "metadata": moved})
        await until(lambda: rig.backends() == ["10.65.7.21"])


async def test_a_changed_config_file_calls_for_a_restart(rig: Rig, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a")
    rig.setup = msgspec.structs.replace(
        rig.setup, config_file=str(file), config_content=file.read_bytes()
    )
    async with rig.running() as task:
        await until(lambda: rig.backends() == ["10.64.3.11"])
        replacement = tmp_path / "new"
        replacement.write_text("b")
        replacement.rename(file)
        with pytest.raises(RestartNeeded, match="configuration file was updated"):
            await asyncio.wait_for(task, 10)


async def test_init_only_ends_when_the_node_is_known(rig: Rig) -> None:
    rig.setup = msgspec.structs.replace(rig.setup, init_only=True)
    async with rig.running() as task:
        await asyncio.wait_for(task, 10)
    assert rig.kernels[Family.IPV4].updates == []


async def test_an_unsupported_primary_family_is_refused(rig: Rig) -> None:
    rig.setup = msgspec.structs.replace(rig.setup, families=(Family.IPV6,))
    async with rig.running() as task:
        with pytest.raises(OperatorError, match='no support for primary IP family "IPv4"'):
            await asyncio.wait_for(task, 10)


async def test_pod_ranges_are_waited_for_in_node_cidr_mode(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.engine.own_node.POD_CIDR_WAIT", 0.1)
    rig = Rig(rig.server, "--detect-local-mode=NodeCIDR")
    rig.put("Node", {**kestrel(), "spec": {}})
    async with rig.running() as task:
        with pytest.raises(OperatorError, match='PodCIDR allocation on node "kestrel"'):
            await asyncio.wait_for(task, 10)


async def test_an_unknown_node_is_waited_for_and_then_done_without(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubeproxy.engine.own_node.NODE_IP_WAIT", 0.1)
    rig.server.delete("Node", "", NODE_NAME)
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11"])
    said = capsys.readouterr().err
    assert "Timed out waiting for node to exist" in said
    assert "Can't determine this node's IP" in said


def manifests(directory: Path) -> None:
    documents = [
        typed("Node", kestrel()),
        typed("Service", service()),
        typed("EndpointSlice", endpoint_slice("L1 R1")),
    ]
    (directory / "all.yaml").write_text(yaml.safe_dump_all(documents))


async def test_manifests_need_no_server_and_no_node(tmp_path: Path, rig: Rig) -> None:
    manifests(tmp_path)
    source = Manifests([str(tmp_path)], "another-node")
    rig.setup = msgspec.structs.replace(
        rig.setup, source=source, waits_for_node=False, node_name="another-node"
    )
    async with rig.running():
        await until(lambda: rig.backends() == ["10.64.3.11", "10.65.7.21"])
        (tmp_path / "all.yaml").unlink()
        await until(lambda: rig.backends() == [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(tmp_path: Path, number: signal.Signals) -> None:
    manifests(tmp_path)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from kubeproxy.app.cli import main; sys.exit(main())",
        f"--manifests={tmp_path}",
        "--dry-run",
        f"--hostname-override={NODE_NAME}",
        "-v=2",
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert process.stderr is not None
    async with asyncio.timeout(20):
        said = b""
        while b"Would add" not in said:
            said += await process.stderr.readline()
        process.send_signal(number)
        said += await process.stderr.read()
        assert await process.wait() == 128 + number
    text = said.decode()
    assert '"Would add" servicePort="shop/cart:http"' in text
    assert "Stopping; the rules stay as they are" in text
    assert "Traceback" not in text


async def test_changes_by_others_are_repaired_at_once(rig: Rig) -> None:
    async with rig.running():
        kernel = rig.kernels[Family.IPV4]
        await until(lambda: rig.backends() == ["10.64.3.11"])
        kernel.entries.clear()
        assert kernel.lost is not None
        kernel.lost(Writer("nft", 4711))
        await until(lambda: rig.backends() == ["10.64.3.11"])
        assert kernel.updates[-1].full
    assert kernel.closed


async def test_what_follows_the_first_sync_waits_for_every_family_and_comes_once(
    rig: Rig,
) -> None:
    called: list[list[str]] = []

    def remove() -> tuple[str, ...]:
        called.append(rig.backends())
        return ()

    rig.kernels[Family.IPV6].fail = 1
    rig.setup = msgspec.structs.replace(rig.setup, remove_other_modes=remove)
    async with rig.running():
        await until(lambda: rig.kernels[Family.IPV6].fail == 0)
        await asyncio.sleep(0.05)
        assert called == []
        await until(lambda: called == [["10.64.3.11"]])
        rig.put("EndpointSlice", endpoint_slice("R1"))
        await until(lambda: rig.backends() == ["10.65.7.21"])
    assert called == [["10.64.3.11"]]
