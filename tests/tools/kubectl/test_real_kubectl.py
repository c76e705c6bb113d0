"""The plugin with a real kubectl: what it is given, how it answers, and what comes through it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, always
from fakes.daemon import serving as daemon_serving
from fakes.kubectl import FakeCluster, node, pod
from fakes.kubeserver import serving
from kubeproxy.app.cli import kubectl_plugin
from tools import reported

Call = Callable[..., tuple[int, str, str]]
HEALTHZ = "/api/v1/namespaces/kube-system/pods/go-1:10256/proxy/healthz"
INSIDE = """
import sys
from kubeproxy.app.cli import main
name, *words = sys.argv[2:]
assert name == "kube-proxy"
sys.exit(main([*words, f"--socket={sys.argv[1]}"]))
"""
WEB = {
    "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"nodeName": "kestrel", "containers": [{"name": "web"}]},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.64.3.11"}, {"ip": "fd40::11"}]},
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    pages = {
        "/status": always(reported.status()),
        "/status/services": always(reported.services(reported.CART, reported.DNS)),
        "/status/services/shop/cart": always(reported.detail()),
    }
    with daemon_serving(FakeDaemon(pages), tmp_path / "socket") as daemon:
        yield daemon


@pytest.fixture
def cluster(daemon: FakeDaemon) -> FakeCluster:
    inside = [sys.executable, "-c", INSIDE, daemon.socket]
    labels = {"k8s-app": "kube-proxy"}
    return FakeCluster(
        pods=[
            *(pod("ours-1", "kestrel"), pod("ours-2", "osprey"), pod("ours-3", "merlin")),
            pod("go-1", "heron", labels=labels, image="registry.k8s.io/kube-proxy:v1.36.2"),
            WEB,
        ],
        nodes=[node(name) for name in ("heron", "kestrel", "merlin", "osprey")],
        inside={"ours-1": inside, "ours-2": inside},
        raw={HEALTHZ: "{}"},
    )


@pytest.fixture
def call(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Iterator[Call]:
    beside = str(Path(sys.executable).parent)
    program = shutil.which("kubectl", path=beside) or shutil.which("kubectl")
    assert program is not None, "kubectl is missing: run `make packages`"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").symlink_to(program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "kubeconfig").write_text("kind: Config\napiVersion: v1\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))

    def called(*arguments: str) -> tuple[int, str, str]:
        flags = (f"--server={url}", f"--cache-dir={tmp_path / 'cache'}", "--timeout=60s")
        code = kubectl_plugin([*arguments, *flags])
        return code, *capfd.readouterr()

    with serving(cluster) as url:
        yield called


def test_status(call: Call, daemon: FakeDaemon) -> None:
    unwell = replace(reported.family(), not_programmed=(reported.REFUSED,))
    daemon.pages["/status"] = always(reported.status(unwell))
    code, out, err = call("status")
    assert (code, err) == (1, "")
    rows = [line.split() for line in out.splitlines()[3:7]]
    assert [row[:2] for row in rows] == [
        ["kestrel", "NOT"],
        ["osprey", "NOT"],
        ["merlin", "NO"],
        ["heron", "well"],
    ]
    assert rows[3][2:4] == ["Go", "v1.36.2"]
    assert "error dialing backend: no route to the node" in out


def test_services_of_all_and_one_with_names_of_pods(call: Call) -> None:
    code, out, err = call("services", "--node=kestrel", "--node=osprey")
    assert (code, err) == (0, "")
    assert [line.split()[-2:] for line in out.splitlines()[1:]] == [
        ["154", "1.0"],
        ["2,400", "25.0"],
    ]
    code, out, err = call("services", "shop/cart", "--pod=shop/web-1")
    assert (code, err) == (0, "")
    assert ["shop/web-1:8080", "this", "node"] in [line.split()[:3] for line in out.splitlines()]


def test_a_bundle_comes_through_unharmed(call: Call, cluster: FakeCluster, tmp_path: Path) -> None:
    every = bytes(range(256)) * 2000
    (tmp_path / "data").write_bytes(every)
    cluster.inside["ours-1"] = ["sh", "-c", f"cat {tmp_path / 'data'}; echo gathered >&2"]
    code, _, err = call("bundle", "--node=kestrel", f"--file={tmp_path / 'b'}")
    assert (code, err.splitlines()[0]) == (0, "gathered")
    assert (tmp_path / "b").read_bytes() == every


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("services", "--pod=shop/none"), "not found"),
        (("status", "--selector=k8s-app in (none)"), "no pod in namespace kube-system"),
    ],
)
def test_mistakes(call: Call, arguments: tuple[str, ...], expected: str) -> None:
    code, _, err = call(*arguments)
    assert (code, expected in err) == (2, True)
