"""`kube-proxy plan` on manifests, and with a daemon that is none: what is said, the exit codes."""

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from fakes.daemon import FakeDaemon, always, serving
from kubeproxy.app import cli
from kubeproxy.base.errors import KernelError
from kubeproxy.plan.wire import Plan
from kubeproxy.serve.status.clusterwire import cluster_pieces
from kubeproxy.tools.plan import source
from plan.sides import setup_in
from serve.status.living import programmed
from tools.manifests import SHOP, of_kind, write
from world import Document, Mode, endpoint_slice, everywhere, service

Output = pytest.CaptureFixture[str]
HERE = ("--cluster-cidr=10.64.0.0/14", "--node=kestrel")


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    directory = tmp_path / "cluster"
    directory.mkdir()
    write(directory, SHOP)
    return f"--manifests={directory}"


def changed(tmp_path: Path, *documents: Document, name: str = "change.yaml") -> str:
    return str(write(tmp_path, documents, name))


def slice_of(endpoints: str) -> Document:
    return of_kind("EndpointSlice", endpoint_slice(endpoints))


def plan(*arguments: str) -> int:
    return cli.main(["plan", *arguments])


# --- what is said -----------------------------------------------------------------------------


def test_a_change_that_nobody_notices(manifests: str, capsys: Output) -> None:
    assert plan(manifests, *HERE, "--mode=nftables") == 0
    assert capsys.readouterr().out == (
        "Plan for node kestrel in nftables mode (nothing is written)\n"
        "\n"
        "No client of any of 1 Service would notice. 0 objects would be written to the kernel.\n"
    )


def test_the_last_local_endpoint_goes(manifests: str, tmp_path: Path, capsys: Output) -> None:
    change = changed(tmp_path, slice_of("L1:unready R1"))
    assert plan(manifests, *HERE, "-f", change) == 1
    out = capsys.readouterr().out
    assert "shop/cart  changed, " in out
    assert "  ! new connections get no answer\n" in out
    assert "      load-balancer IP 203.0.113.7:80/TCP, for outside\n" in out
    assert "  - endpoints 10.64.3.11:8080\n" in out
    assert out.endswith("objects would be written to the kernel.\n")


def test_json_is_the_plan(manifests: str, tmp_path: Path, capsys: Output) -> None:
    change = changed(tmp_path, slice_of(""))
    assert plan(manifests, *HERE, "-f", change, "-ojson") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["node"], found["modeBefore"], found["modeAfter"]) == (
        "kestrel",
        "nftables",
        "nftables",
    )
    assert found["services"][0]["notices"][0]["effect"] == "refused"
    assert found["services"][0]["change"] == "changed"
    assert set(found) == {each.encode_name for each in msgspec.structs.fields(Plan)}


def test_an_object_that_is_deleted(manifests: str, capsys: Output) -> None:
    assert plan(manifests, *HERE, "--delete=service/shop/cart") == 1
    assert "shop/cart  removed" in capsys.readouterr().out


def test_standard_input(manifests: str, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_dump(slice_of("R2:draining")).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert plan(manifests, *HERE, "-f-") == 1
    assert "- endpoints 10.64.3.11:8080" in capsys.readouterr().out


def test_a_directory_and_what_is_not_looked_at(
    manifests: str, tmp_path: Path, capsys: Output
) -> None:
    below = tmp_path / "changes"
    below.mkdir()
    write(below, [of_kind("Pod", {"metadata": {"name": "a"}}), slice_of("L1 R1")])
    assert plan(manifests, *HERE, "-f", str(below)) == 1
    assert "note: not looked at: Pod\n" in capsys.readouterr().err


CONFIG: Document = {
    "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
    "kind": "KubeProxyConfiguration",
    "clusterCIDR": "10.64.0.0/14",
    "mode": "iptables",
}


def test_a_new_config_file(manifests: str, tmp_path: Path, capsys: Output) -> None:
    assert plan(manifests, *HERE, "-f", changed(tmp_path, CONFIG)) == 1
    out = capsys.readouterr().out
    assert "Plan for node kestrel: from nftables to iptables mode (nothing is written)" in out
    assert "  nodePortAddresses: primary -> none\n" in out


def test_rules_that_are_given(manifests: str, tmp_path: Path, capsys: Output) -> None:
    rules = tmp_path / "rules"
    rules.write_text("*filter\n:FORWARD DROP [0:0]\nCOMMIT\n")
    flags = ["--proxy-mode=iptables", "--mode=nftables", f"--rules={rules}"]
    assert plan(manifests, *HERE, *flags) == 1
    assert "  ! -t filter -P FORWARD DROP\n" in capsys.readouterr().out


# --- the running proxy ------------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    async def made() -> str:
        rig = await programmed(everywhere(), endpoint_slice("L1 R1"), mode=Mode.IPTABLES)
        rig.config = setup_in(Mode.IPTABLES).config
        return b"".join(cluster_pieces(rig.live.state())).decode()

    pages = {"/status/cluster": always((200, asyncio.run(made())))}
    with serving(FakeDaemon(pages), tmp_path / "socket") as serving_:
        yield serving_


def test_the_running_proxy_is_asked(daemon: FakeDaemon, tmp_path: Path, capsys: Output) -> None:
    change = changed(tmp_path, slice_of("L1"))
    assert plan(f"--socket={daemon.socket}", "-f", change) == 1
    out, err = capsys.readouterr()
    assert "  - endpoints 10.65.7.21:8080\n" in out
    assert err == "note: the running kube-proxy was asked (iptables mode, node kestrel)\n"


def test_the_running_proxy_in_another_mode(
    daemon: FakeDaemon, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"
    monkeypatch.setattr(source, "_of_this_machine", lambda: [listed])
    assert plan(f"--socket={daemon.socket}", "--mode=nftables") == 1
    out = capsys.readouterr().out
    assert "from iptables to nftables mode" in out
    assert "-P FORWARD DROP" in out


def test_rules_that_may_not_be_read(
    daemon: FakeDaemon, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> list[str]:
        raise KernelError("not for you")

    monkeypatch.setattr(source, "_of_this_machine", refuse)
    assert plan(f"--socket={daemon.socket}", "--mode=nftables") == 1
    assert "rules of other programs were not looked at (not for you)" in capsys.readouterr().err


def test_the_running_proxy_with_a_new_config_file(
    daemon: FakeDaemon, tmp_path: Path, capsys: Output
) -> None:
    change = changed(tmp_path, {**CONFIG, "iptables": {"masqueradeAll": True}})
    plan(f"--socket={daemon.socket}", "-f", change, "--limit=0")
    assert "  iptables.masqueradeAll: False -> True\n" in capsys.readouterr().out


# --- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "what changes? Give -f FILE, --delete OBJECT or --mode MODE"),
        (("-f/nowhere.yaml",), "/nowhere.yaml cannot be read: No such file or directory"),
        (("--delete=cart",), "--delete cart: must be such as service/NAMESPACE/NAME"),
        (("--delete=svc/shop/x",), "there is no such object"),
        (("--mode=kernelspace",), "kernelspace"),
        (("--mode=ipvs", "--limit=-1"), "--limit -1: must not be negative"),
        (("--mode=ipvs", "--rules=/nowhere"), "--rules /nowhere: no such file or directory"),
        (("--mode=ipvs", "--socket=/x"), "is not possible here: the running proxy"),
    ],
)
def test_mistakes_have_an_exit_code_of_their_own(
    manifests: str, arguments: tuple[str, ...], expected: str, capsys: Output
) -> None:
    assert plan(manifests, *HERE, *arguments) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([of_kind("Pod", {"metadata": {"name": "a"}})], "there is no Service, EndpointSlice"),
        ([CONFIG, CONFIG], "there are 2 config files in the change: give one"),
        ([of_kind("Service", {"metadata": {"name": 3}})], "cannot be decoded"),
        ([{**CONFIG, "modes": "x"}], 'unknown field "modes"'),
    ],
)
def test_changes_that_are_none(
    manifests: str, documents: list[Document], expected: str, tmp_path: Path, capsys: Output
) -> None:
    assert plan(manifests, *HERE, "-f", changed(tmp_path, *documents)) == 2
    assert expected in capsys.readouterr().err


def test_no_proxy_and_no_cluster(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("kubeproxy.tools.client.SOCKET", str(tmp_path / "no-socket"))
    monkeypatch.setattr("kubeproxy.tools.client.ADDRESS", "http://127.0.0.1:1")
    assert plan("--mode=iptables") == 3
    assert "no cluster is named" in capsys.readouterr().err


def test_help_says_that_nothing_is_written(capsys: Output) -> None:
    assert plan("--help") == 0
    assert "Nothing is written:\nnot to the kernel" in capsys.readouterr().out


def test_a_service_of_no_node_port(manifests: str, tmp_path: Path, capsys: Output) -> None:
    other = service({"clusterIP": "", "ports": [{"port": 90}]}, name="other")
    assert plan(manifests, *HERE, "-f", changed(tmp_path, of_kind("Service", other))) == 1
    out = capsys.readouterr().out
    assert "shop/other  added" in out
    assert "Assumed\n  Service shop/other: the API server will give it a cluster IP" in out
