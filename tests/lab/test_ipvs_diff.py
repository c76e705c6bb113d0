"""`kube-proxy diff` in ipvs mode, in a kernel that has it.

The daemon repairs addresses at once, and compares all else once in a sync period: it is stopped
while others change something.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.deploy import Port, deploy, everywhere, mall
from lab.differ import EQUAL, remembered, run_diff, run_diff_in_terminal
from lab.ipvs import DEVICE
from lab.plan import HOSTS, cluster_ip
from lab.stage import Lab

SELDOM = "--ipvs-sync-period=1h"
IP, L1 = cluster_ip(21), HOSTS["L1"].ipv4
PORTS = [Port(node_port=31080)]
CHANGES = f"""
ipvsadm -d -t {IP}:80 -r {L1}:8080
ipvsadm -a -t {IP}:80 -r 192.0.2.9:8080 -m -w 1
ipvsadm -A -t 192.0.2.1:443 -s rr
ipset add KUBE-CLUSTER-IP 192.0.2.1,tcp:443
ip address add 192.0.2.99/32 dev {DEVICE}
ip address del {IP}/32 dev {DEVICE}
iptables -t nat -A KUBE-MARK-MASQ -j RETURN
"""


@pytest.fixture
def paused(lab: Lab, tmp_path: Path) -> Iterator[str]:
    """A service is programmed, and what is changed now is put right only afterwards."""
    lab.run(SELDOM, documents=deploy("cart", everywhere(21), "L1 R1"))
    with remembered(lab.daemon, tmp_path) as answering, lab.daemon.paused():
        yield f"--socket={answering.socket}"


@pytest.fixture
def socket(lab: Lab) -> str:
    """Where the daemon is asked."""
    return f"--socket={lab.socket}"


def test_nothing_after_a_start_and_after_changes(lab: Lab, socket: str) -> None:
    lab.run(SELDOM, documents=mall())
    assert run_diff(lab.network.node, socket) == EQUAL
    lab.put(*mall(), *deploy("more", everywhere(40), "L1 R1", PORTS))
    lab.put(*mall(), *deploy("more", everywhere(40), "R1", PORTS))
    assert run_diff(lab.network.node, socket) == EQUAL


def test_nothing_while_a_connection_drains(lab: Lab, socket: str) -> None:
    lab.run(SELDOM, documents=deploy("cart", everywhere(21), "L1"))
    connection = lab.connect("P", IP, 80)
    lab.put(*deploy("cart", everywhere(21), "R1"))
    assert f"{L1}:8080 -m -w 0" in lab.rules()
    assert run_diff(lab.network.node, socket) == EQUAL
    connection.talk()


def test_changes_of_others_are_shown(lab: Lab, paused: str) -> None:
    node = lab.network.node
    node.run(["sh", "-ec", CHANGES])
    before = lab.rules()
    ran = run_diff(node, paused)
    assert lab.rules() == before, "it only looks"
    assert ran.code == 1, ran
    assert ran.lines == [
        "--- kernel (IPv4, ipvs)",
        "+++ desired",
        "@@ of no service port @@",
        "- -t nat -A KUBE-MARK-MASQ -j RETURN",
        "- ipset KUBE-CLUSTER-IP 192.0.2.1,tcp:443",
        "- virtual server -t 192.0.2.1:443",
        f"- address 192.0.2.99/32 dev {DEVICE}",
        "@@ mall/cart:tcp-80 @@",
        f"+ real server -t {IP}:80 -r {L1}:8080 -m -w 1",
        f"- real server -t {IP}:80 -r 192.0.2.9:8080 -m -w 1",
        f"+ address {IP}/32 dev {DEVICE}",
    ]
    shown = run_diff_in_terminal(node, paused)
    assert "\x1b[31m- virtual server -t 192.0.2.1:443\x1b[0m" in shown.lines


def test_nothing_after_a_restart_that_found_something(lab: Lab, socket: str) -> None:
    lab.run(SELDOM, documents=deploy("cart", everywhere(21), "L1 R1"))
    lab.network.node.run(["sh", "-ec", CHANGES])
    lab.restart()
    assert run_diff(lab.network.node, socket) == EQUAL


def test_no_daemon(lab: Lab, socket: str) -> None:
    lab.stop()
    assert run_diff(lab.network.node, socket).code == 3
