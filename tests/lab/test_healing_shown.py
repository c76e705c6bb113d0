"""What the whole daemon says of an endpoint that refuses: metrics, answers, trace, an event."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import yaml

from kubeproxy.explain.words import Explanation
from kubeproxy.serve.status.wire import DaemonStatus, ServiceDetail
from lab.deploy import deploy, everywhere
from lab.documents import complete, kestrel
from lab.launch import KUBE_PROXY
from lab.modes import only
from lab.namespaces import Namespace
from lab.page import ask, samples
from lab.plan import CLUSTER_CIDR, HOSTS
from lab.stage import Lab
from lab.test_trace_frontends import JSON
from lab.tracer import Seen, Tracer
from world import CLUSTER_IP, NODE_NAME, Document, endpoint_slice, service

pytestmark = only("nftables", reason="no other mode heals")

TESTS = Path(__file__).parents[1]
SECONDS = 60.0
REFUSES = f"{HOSTS['P'].ipv4}:8080"
"""On a pod on which nothing listens."""
CLIENTS = ("L2", "H")
EACH = 16
"""Two clients make so many connections each: that few are refused does not happen."""


def cluster() -> list[Document]:
    """A healed Service with an endpoint that answers and one that refuses."""
    healed = service()
    healed["metadata"] = {
        "namespace": "shop",
        "name": "cart",
        "annotations": {"kubeproxy.io/healing": "all"},
    }
    endpoints = [
        {"addresses": [HOSTS[name].ipv4], "nodeName": NODE_NAME, "conditions": {"ready": True}}
        for name in ("L1", "P")
    ]
    return [kestrel(), healed, endpoint_slice(spec={"endpoints": endpoints})]


def config(kubeconfig: str, directory: Path) -> Path:
    """The file that the daemon is started with: an endpoint that is left out stays so."""
    keep = {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    document = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": kubeconfig},
        "clusterCIDR": ",".join(CLUSTER_CIDR.values()),
        "hostnameOverride": NODE_NAME,
        "conntrack": keep,
        "statusSocket": str(directory / "status.sock"),
        "nftables": {"healing": {"ejectionTime": "10m", "maxEjectionTime": "10m"}},
    }
    path = directory / "config.conf"
    path.write_text(yaml.safe_dump(document))
    return path


@contextlib.contextmanager
def started(node: Namespace, *command: str, log: Path) -> Iterator[subprocess.Popen[str]]:
    """A program of the node."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with node.entered(), log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextlib.contextmanager
def api_server(node: Namespace, directory: Path) -> Iterator[tuple[int, str]]:
    """A server that has the cluster: its port, and a kubeconfig for it."""
    manifests = directory / "manifests"
    manifests.mkdir()
    text = "\n---\n".join(json.dumps(complete(each)) for each in cluster())
    (manifests / "cluster.yaml").write_text(text)
    command = (sys.executable, "-m", "fakes.apiserver", f"--manifests={manifests}")
    with started(node, *command, log=directory / "server.log") as server:
        assert server.stdout is not None
        url, kubeconfig = (server.stdout.readline().strip() for _ in range(2))
        yield int(url.rpartition(":")[2]), kubeconfig.removeprefix("export KUBECONFIG=")


class Shown:
    """A daemon of kestrel with an API server, and what it says."""

    def __init__(self, node: Namespace, api_port: int) -> None:
        self.node = node
        self._api_port = api_port

    def get(self, path: str) -> str:
        code, body = ask(self.node, path, headers={"Accept": "application/json"})
        assert code == 200, body
        return body

    def tool(self, *arguments: str) -> str:
        with self.node.entered():
            return subprocess.run(
                [*KUBE_PROXY, *arguments], stdout=subprocess.PIPE, text=True, check=True
            ).stdout

    def events(self) -> list[Document]:
        path = "/apis/events.k8s.io/v1/namespaces/shop/events"
        code, body = ask(self.node, path, port=self._api_port)
        assert code == 200, body
        found: list[Document] = json.loads(body)["items"]
        return found

    def is_programmed(self) -> bool:
        with contextlib.suppress(ConnectionRefusedError, AssertionError):
            body = self.get("/status/services/shop/cart")
            detail = msgspec.json.decode(body, type=ServiceDetail)
            return not detail.ports[0].not_programmed
        return False

    def wait(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, "it never came to pass"
            time.sleep(0.05)

    def refusals(self) -> float:
        """All that the kernel has counted."""
        name = "nftables_refused_connections_total"
        return sum(self.metric(name, outcome=outcome) for outcome in ("retried", "given_up"))

    def metric(self, name: str, **labels: str) -> float:
        found = samples(self.get(f"/metrics?name[]=kubeproxy_{name}"), f"kubeproxy_{name}")
        wanted = labels.items()
        return sum(value for having, value in found if wanted <= having.items())


def dial(lab: Lab) -> None:
    """Each client makes its connections at once, and waits for what becomes of them."""
    dialled = []
    for name in CLIENTS:
        with lab.network.of(HOSTS[name]).entered():
            for _ in range(EACH):
                each = socket.socket()
                each.setblocking(False)
                each.connect_ex((CLUSTER_IP, 80))
                dialled.append(each)
    deadline = time.monotonic() + SECONDS
    waiting = list(dialled)
    while waiting:
        _, ended, _ = select.select([], waiting, [], 1.0)
        waiting = [each for each in waiting if each not in ended]
        assert time.monotonic() < deadline, "some connections do not end"
    errors = [each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for each in dialled]
    for each in dialled:
        each.close()
    assert 0 in errors


def refused(found: Sequence[Seen]) -> set[tuple[str, str | None, str]]:
    """Client, endpoint and destination of the rows of refusals."""
    return {(e.client, e.endpoint, e.destination) for e in found if e.failure == "refused"}


def test_an_endpoint_that_refuses(lab: Lab, tmp_path: Path) -> None:
    """A client sends its SYN again after a second: once for all that is shown."""
    lab.stop()
    node = lab.network.node
    with (
        api_server(node, tmp_path) as (port, kubeconfig),
        started(
            node,
            *(*KUBE_PROXY, f"--config={config(kubeconfig, tmp_path)}"),
            log=tmp_path / "log",
        ),
    ):
        shown = Shown(node, port)
        shown.wait(shown.is_programmed)
        assert shown.metric("connect_failures_total") == 0
        with Tracer(node, "--to", "shop/cart", *JSON) as tracer:
            dial(lab)
            clients = {HOSTS[name].ipv4 for name in CLIENTS}
            expected = {(each, REFUSES, f"{CLUSTER_IP}:80") for each in clients}
            tracer.wait(lambda: bool(refused(tracer.connections)))
            assert tracer.interrupt() == 0
            assert refused(tracer.connections) <= expected
            assert f"  {REFUSES}  " in tracer.said
            assert "refused, retried" in tracer.said
        check(shown)
    lab.stop()


def check(shown: Shown) -> None:
    """All that is said of it, but for the trace."""
    shown.wait(lambda: shown.metric("ejected_endpoints", service="cart") == 1)
    shown.wait(lambda: shown.metric("connect_failures_total") == shown.refusals())
    failures = shown.metric("connect_failures_total", endpoint=REFUSES, reason="refused")
    assert failures == shown.metric("connect_failures_total")
    assert shown.metric("endpoint_ejections_total", endpoint=REFUSES) == 1

    (out,) = msgspec.json.decode(shown.get("/status"), type=DaemonStatus).families[0].left_out
    assert (out.service_port, out.endpoint) == ("shop/cart:http", REFUSES)
    lines = shown.tool("services", "--no-rates", "shop/cart").splitlines()
    (title,) = (line for line in lines if line.startswith("http TCP, IPv4"))
    assert title.endswith("healing all (by annotation)")
    at = next(place for place, line in enumerate(lines) if REFUSES in line)
    assert lines[at].split()[-1] == "nothing"
    assert lines[at + 1].strip() == f"not used: {out.why}"
    assert lines[at + 2].strip() == f"connections that failed: {failures:.0f} refused"

    code, page = ask(shown.node, "/status/services/shop/cart", headers={"Accept": "text/html"})
    assert code == 200
    for words in ("left out", out.why, "healing all (by annotation)"):
        assert words in page

    answer = shown.get("/status/explain?to=shop/cart:http")
    (explanation,) = msgspec.json.decode(answer, type=list[Explanation])
    assert [(each.endpoint, each.reason) for each in explanation.not_chosen] == [
        (REFUSES, out.why)
    ]

    shown.wait(lambda: bool(shown.events()))
    (event,) = shown.events()
    assert event["reason"] == "EndpointEjected"
    what = f"node {NODE_NAME}: {REFUSES} of port http is left out for 600 s: "
    assert str(event["note"]).startswith(what)


def test_a_connection_whose_endpoint_is_gone(lab: Lab) -> None:
    flag = "--nftables-healing=resetGone"
    pods = deploy("web", everywhere(21), "L1")
    for document in pods:
        for each in document.get("endpoints", []):  # type: ignore[attr-defined]  # a slice
            each["targetRef"] = {"kind": "Pod", "name": "web-1", "namespace": "mall"}
    lab.run(flag, documents=pods)
    connection = lab.connect("X", CLUSTER_IP, 80)
    with Tracer(lab.network.node, "--to", "mall/web", *JSON) as tracer:
        lab.put(*deploy("web", everywhere(21), "L2"))
        with pytest.raises(ConnectionResetError):
            connection.talk()
        tracer.wait(lambda: any(each.failure == "gone" for each in tracer.connections))
        (gone,) = (each for each in tracer.connections if each.failure == "gone")
        assert tracer.interrupt() == 0
    assert gone.client == HOSTS["X"].ipv4
    assert gone.endpoint == f"{HOSTS['L1'].ipv4}:8080"
    assert "reset: endpoint is gone" in tracer.said
