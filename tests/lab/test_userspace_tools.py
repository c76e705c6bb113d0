"""The tools where userspace mode is at work: diff, cleanup, counts, explain, another mode."""

import json
import os
import time
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.cleaning import cleaned
from lab.deploy import UDP, Port, deploy, everywhere, mall
from lab.differ import EQUAL, run_diff
from lab.documents import kestrel, service_cidr
from lab.launch import launcher
from lab.network import Network
from lab.plan import cluster_ip
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, Lab

TABLE = "kube-proxy-userspace"
PORTS = [Port(node_port=31080), Port(53, 53, 31081, UDP)]


def tool(lab: Lab, *words: str) -> dict[str, object]:
    """What a tool says, as JSON."""
    with lab.network.node.entered():
        ran = launcher().tool([*words, f"--socket={lab.socket}", "-o", "json"], {})
    assert ran.code == 0, ran
    found: dict[str, object] = json.loads(ran.out)
    return found


def test_diff_finds_nothing_after_changes(lab: Lab) -> None:
    lab.run(documents=mall())
    socket = f"--socket={lab.socket}"
    assert run_diff(lab.network.node, socket) == EQUAL
    lab.put(*mall(), *deploy("more", everywhere(40), "L1 R1", [Port()]))
    assert run_diff(lab.network.node, socket) == EQUAL


def test_diff_shows_elements_that_others_changed_and_listeners_that_are_gone(lab: Lab) -> None:
    lab.run(documents=deploy("cart", everywhere(21), "L1 R1", PORTS))
    socket = f"--socket={lab.socket}"
    address = cluster_ip(21)
    with lab.daemon.paused():
        lab.network.node.run(
            ["nft", f"delete element ip {TABLE} services {{ {address} . tcp . 80 }}"]
        )
        lab.network.node.run(["nft", f"add element ip {TABLE} listening {{ tcp . 1 }}"])
        manifests = lab.daemon.socket.parent / "manifests"
        ran = run_diff(
            lab.network.node,
            "--socket=",
            f"--manifests={manifests}",
            "--node=kestrel",
            "--proxy-mode=userspace",
            CLUSTER_CIDR_FLAG,
        )
    assert ran.code == 1, ran
    assert f"+ element services {{ {address} . tcp . 80 }}" in ran.out
    assert "listener tcp port 1" in ran.out
    deadline = time.monotonic() + 30.0
    while run_diff(lab.network.node, socket) != EQUAL:
        assert time.monotonic() < deadline, "not repaired in 30 s"


def test_connections_are_counted(lab: Lab) -> None:
    lab.run(documents=deploy("cart", everywhere(21), "L1", [Port()]))
    for _ in range(5):
        assert lab.dial("P", cluster_ip(21), 80).who == "L1"
    deadline = time.monotonic() + 30.0
    while True:
        services = tool(lab, "services")["services"]
        assert isinstance(services, list)
        if {"cart": 5}.items() <= {
            each["service"]: each["connections"] for each in services
        }.items():
            break
        assert time.monotonic() < deadline, services


@pytest.mark.parametrize("family", Family)
def test_explain_says_that_the_endpoint_sees_the_node(lab: Lab, family: Family) -> None:
    lab.run(documents=deploy("cart", everywhere(21), "L1", [Port()]))
    address = cluster_ip(21, family)
    to = f"[{address}]:80" if family is Family.IPV6 else f"{address}:80"
    with lab.network.node.entered():
        ran = launcher().tool(["explain", "--to", to, f"--socket={lab.socket}"], {})
    assert ran.code == 0, ran
    assert "userspace mode makes the connection to the endpoint itself" in " ".join(
        ran.out.split()
    )


def test_cleanup_removes_the_table(lab: Lab) -> None:
    lab.run(documents=mall())
    lab.daemon.stop()
    try:
        assert TABLE in lab.rules()
        code, said = cleaned(lab.network.node)
        assert code == 0, said
        assert TABLE not in lab.rules()
    finally:
        lab.stop()


def test_another_mode_takes_over_and_gives_back(network: Network, tmp_path: Path) -> None:
    documents = (kestrel(), service_cidr(), *deploy("cart", everywhere(21), "L1", PORTS))
    daemon = DaemonProcess(network.node, tmp_path)
    try:
        for mode in ("userspace", "nftables", "userspace", "iptables", "userspace"):
            daemon.start([f"--proxy-mode={mode}", CLUSTER_CIDR_FLAG], documents)
            deadline = time.monotonic() + 30.0
            while remains(network) != {mode}:
                assert time.monotonic() < deadline, f"in mode {mode} there is {remains(network)}"
            daemon.stop()
    finally:
        daemon.stop()
        network.node.run(["nft", "flush", "ruleset"])


def remains(network: Network) -> set[str]:
    """The modes of which there is something in the kernel."""
    listed = network.node.run(["nft", "list", "tables"]).split()
    named = {"kube-proxy": "nftables", TABLE: "userspace"}
    found = {mode for name, mode in named.items() if name in listed}
    saved = network.node.run(["iptables-save"]) + network.node.run(["ip6tables-save"])
    return found | ({"iptables"} if "KUBE-SERVICES" in saved else set())


def test_check_tries_the_table_and_names_what_is_there(lab: Lab) -> None:
    lab.run(documents=mall())
    with lab.network.node.entered():
        ran = launcher().tool(["check", "--mode=userspace"], {"PATH": os.environ["PATH"]})
    said = " ".join(ran.out.split())
    assert f"table ip {TABLE}" in said, ran
    assert f"nftables table {TABLE}" in said
    assert "made anew, in one transaction" in said
