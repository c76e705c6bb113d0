"""`kube-proxy explain` where a proxy runs: when it is asked, and what is printed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from fakes.daemon import FakeDaemon, always, serving
from kubeproxy.app.cli import main
from kubeproxy.explain.words import Explanation, Matched
from kubeproxy.serve.status.wire import FieldProblem
from tools.manifests import SHOP, write

PATH = "/status/explain"
ANSWER = Explanation(
    node="kestrel",
    mode="ipvs",
    source="192.0.2.1",
    source_class="outside",
    destination="10.112.0.21:80/TCP",
    client="outside",
    verdict="reject",
    summary="rejected",
    reason="no-endpoints",
    matched=Matched("shop", "cart", "http", "cluster IP", "10.112.0.21", 80, "TCP"),
    notes=("a note",),
)
TEXT = """\
192.0.2.1 (outside) -> 10.112.0.21:80/TCP   on node kestrel, ipvs mode
  frontend   cluster IP 10.112.0.21:80/TCP of Service shop/cart, port http
  client     outside
  verdict    rejected
  note       a note
"""
NOTE = "note: answered by the running kube-proxy (ipvs mode, node kestrel)\n"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    """A daemon in the usual place, on a machine that names no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubeproxy.tools.client.ADDRESS", "http://127.0.0.1:1")
    with serving(FakeDaemon({PATH: always([ANSWER])}), tmp_path / "socket") as daemon:
        monkeypatch.setattr("kubeproxy.tools.client.SOCKET", daemon.socket)
        yield daemon


@pytest.fixture
def shop(tmp_path: Path) -> str:
    return f"--manifests={write(tmp_path, SHOP)}"


def test_the_running_proxy_answers(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--to=cart"]) == 0
    assert capsys.readouterr() == (TEXT, NOTE)
    assert daemon.queries(PATH) == [{"from": ["outside"], "to": ["cart"]}]


def test_everything_is_asked_at_once(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.pages[PATH] = always([ANSWER, ANSWER])
    assert main(["explain", "--from=host", "--to=a", "--to=b,c", "--interface=cni0"]) == 0
    assert capsys.readouterr().out == f"{TEXT}\n{TEXT}"
    asked = {"from": ["host"], "to": ["a", "b", "c"], "interface": ["cni0"]}
    assert daemon.queries(PATH) == [asked]


def test_names_do_nothing_to_a_terminal(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.pages[PATH] = always([replace(ANSWER, notes=("a \x1b[2Jnote",))])
    assert main(["explain", "--to=cart"]) == 0
    assert capsys.readouterr().out == TEXT.replace("a note", "a \ufffd[2Jnote")


def test_for_programs(daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--to=cart", "-o=json"]) == 0
    out, err = capsys.readouterr()
    (found,) = json.loads(out)
    assert (found["reason"], found["matched"]["service"], err) == ("no-endpoints", "cart", NOTE)
    assert daemon.asked


@pytest.mark.parametrize(
    "flag",
    [
        "--node=kestrel",
        "--cluster-cidr=10.64.0.0/14",
        "--proxy-mode=iptables",
        "--masquerade-all",
        "--live=false",
    ],
)
def test_a_cluster_or_settings_that_are_named_count(
    daemon: FakeDaemon, shop: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--to=cart", shop, flag]) == 0
    assert (daemon.asked, capsys.readouterr().err) == ([], "")
    assert main(["explain", "--to=cart", flag]) == 1
    assert daemon.asked == []
    assert "no cluster is named" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--live", "--socket={0.socket}", "--address={0.address}"])
def test_the_running_proxy_and_nothing_else(
    daemon: FakeDaemon, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--to=cart", flag.format(daemon)]) == 0
    assert capsys.readouterr() == (TEXT, NOTE)


def test_the_running_proxy_must_answer_and_there_is_none(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.pages.clear()
    assert main(["explain", "--to=cart", "--live"]) == 3
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == ("", "Error: no kube-proxy answers here:")


def test_live_and_something_else_do_not_go_together(
    daemon: FakeDaemon, shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--to=cart", "--live", shop]) == 1
    assert capsys.readouterr().err == (
        "Error: --manifests is not possible here: the running proxy, which is to answer, has its"
        " node, its cluster and its settings\n"
    )
    assert daemon.asked == []


@pytest.mark.parametrize(
    ("source", "said", "expected"),
    [
        pytest.param(
            "shopper",
            FieldProblem("it is no address, and the daemon knows no Pods", "from", "shopper"),
            "--from shopper: it is no address, and the running kube-proxy does not know Pods: give"
            " the Pod's address (kubectl get pods -o wide), or name the cluster with --kubeconfig"
            " or --manifests",
            id="a-pod",
        ),
        pytest.param(
            "fd40::1",
            FieldProblem("it is IPv6, but the destination is IPv4", "from", "fd40::1"),
            "--from fd40::1: it is IPv6, but the destination is IPv4",
            id="an-address-that-does-not-fit",
        ),
        pytest.param(
            "shopper",
            FieldProblem("no such Service is proxied", "to", "crt"),
            "--to crt: no such Service is proxied",
            id="an-unknown-service",
        ),
        pytest.param(
            "outside",
            "nothing is programmed yet",
            "nothing is programmed yet",
            id="before-the-first-sync",
        ),
    ],
)
def test_refusals(
    daemon: FakeDaemon,
    source: str,
    said: str | FieldProblem,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    daemon.pages[PATH] = always((400, said))
    assert main(["explain", f"--from={source}", "--to=crt"]) == 1
    assert capsys.readouterr() == ("", f"Error: {expected}\n")


def test_without_a_daemon_the_users_kubeconfig_is_read(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster answers where no daemon does."""
    daemon.pages.clear()
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    assert main(["explain", "--to=cart"]) == 1
    assert "stat /nowhere/config: no such file" in capsys.readouterr().err
