"""`kube-proxy check` in a kernel that has ip_vs: run by `python -m uml`."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.linux import ipset
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.links import device_index
from kubeproxy.linux.netlink.ipvs import AddServer, ServerKey, VirtualServer
from kubeproxy.tools.check import command as check
from lab.namespaces import Namespace

THEIRS = AddServer(ServerKey(Protocol.TCP, "10.96.50.1", 80), VirtualServer())
LOADED = Path("/sys/module")


@pytest.fixture
def node() -> Iterator[Namespace]:
    namespace = Namespace("check")
    yield namespace
    namespace.close()


def states(node: Namespace, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """The exit code, and the states of what ipvs mode needs."""
    with node.entered():
        code = check.main(["--proxy-mode=ipvs", "-o", "json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    found = {each["what"]: each["state"] for each in findings if each["topic"] == "ipvs"}
    found |= {each["what"]: each["detail"] for each in findings if each["topic"] == "rivals"}
    return code, found


def harmful() -> set[str]:
    """Those modules that change something on a node by being there; other tests load them."""
    return {name for name in ("dummy", "br_netfilter") if (LOADED / name).exists()}


def test_ipvs_mode_is_tried_and_nothing_of_it_is_left(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = harmful()
    code, found = states(node, capsys)
    assert found["ip_vs"] == "ok"
    expected = (0, "ok") if "dummy" in before else (2, "untried")
    assert expected == (code, found["dummy device"])
    assert before == harmful()

    subprocess.run(["modprobe", "-a", "dummy", "br_netfilter"], check=True)
    code, found = states(node, capsys)
    assert code == 0
    tried = ("ip_vs", "dummy device", "ipset", "IPv4 rules", "IPv6 rules", "ipvs settings")
    assert {"ok"} == {found[what] for what in tried}
    with node.entered(), Ipvs() as ipvs:
        assert ipvs.servers(Family.IPV4) == {}
        assert ipset.names() == ()
        assert not device_index("kube-ipvs0")


def test_virtual_servers_of_others_are_found(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.entered(), Ipvs() as ipvs:
        assert ipvs.run([THEIRS]) == {}
    _, found = states(node, capsys)
    assert found["virtual servers"] == "1 of other programs; deleted, unless excluded"
    with node.entered(), Ipvs() as ipvs:
        assert [THEIRS.key] == list(ipvs.servers(Family.IPV4))


def test_a_scheduler_that_the_kernel_lacks(
    node: Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.entered():
        code = check.main(["--proxy-mode=ipvs", "--ipvs-scheduler=nonsense"])
    assert code == 1
    assert "ipvs: not possible: the kernel has no ipvs scheduler nonsense: modprobe" in (
        capsys.readouterr().out
    )
