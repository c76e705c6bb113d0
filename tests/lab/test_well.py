"""A proxy whose rules are right is not well where packets do not flow: `status` says why."""

import subprocess
import sys

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import Address, deploy, everywhere
from lab.modes import only
from lab.plan import cluster_ip
from lab.stage import Lab

pytestmark = only("nftables", reason="the tools are the same in every mode")


@pytest.fixture(autouse=True)
def _fresh(lab: Lab) -> None:
    """A daemon to whose rules nobody has done anything yet: that too would be a trouble."""
    lab.stop()


def status(lab: Lab) -> tuple[int, str]:
    """The exit code and the text of `kube-proxy status`."""
    command = [sys.executable, "-m", "kubeproxy", "status", f"--socket={lab.socket}"]
    with lab.network.node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("family", "setting"),
    [
        (Family.IPV4, "net.ipv4.ip_forward"),
        (Family.IPV6, "net.ipv6.conf.all.forwarding"),
    ],
)
def test_forwarding_is_off(lab: Lab, family: Family, setting: str) -> None:
    lab.run(documents=deploy("novel", everywhere(21), "R1"))
    assert lab.dial("P", cluster_ip(21, family), 80).who == "R1"
    assert status(lab)[0] == 0
    node = lab.network.node
    key = setting.removeprefix("net.").replace(".", "/")
    node.sysctl([(key, "0")])
    try:
        code, text = status(lab)
        assert code == 1
        assert "kube-proxy is NOT well on node kestrel" in text
        assert f"{family.value}: the kernel does not forward packets" in text
        assert f"{setting}=1" in " ".join(text.split())
    finally:
        node.sysctl([(key, "1")])
    assert lab.dial("P", cluster_ip(21, family), 80).who == "R1"
    assert status(lab)[0] == 0


def test_an_address_of_the_node_that_no_interface_has(lab: Lab) -> None:
    lab.run("--bind-address=198.51.100.99", documents=deploy("novel", everywhere(21), "R1"))
    code, text = status(lab)
    assert (code, "IPv4: no interface has this node's address 198.51.100.99" in text) == (0, True)
    node, address = lab.network.node, ["198.51.100.99/32", "dev", "lo"]
    node.run(["ip", "address", "add", *address])
    try:
        assert "no interface has" not in status(lab)[1]
    finally:
        node.run(["ip", "address", "del", *address])


def test_a_service_that_nobody_serves_is_named(lab: Lab) -> None:
    lab.run(documents=[*deploy("novel", everywhere(21), "R1"), *deploy("poem", Address(22), "")])
    code, text = status(lab)
    assert code == 0
    assert "IPv4: 2 service ports have no endpoint that can serve" in text  # and the lab's pulse
    assert "mall/poem:tcp-80: no endpoint can serve" in text


def test_the_tracked_connections_are_counted(lab: Lab) -> None:
    lab.run(documents=deploy("novel", everywhere(21), "R1"))
    before = tracked(lab)
    connections = [lab.connect("P", cluster_ip(21), 80) for _ in range(20)]
    assert tracked(lab) >= before + len(connections)


def tracked(lab: Lab) -> int:
    """The entries that `status` shows."""
    [line] = [line for line in status(lab)[1].splitlines() if line.startswith("tracking")]
    return int(line.split()[1])
