"""A node goes from nftables mode to iptables mode and back, while connections are open."""

import time
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import RuleKind
from lab.deploy import Port, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.network import Network
from lab.plan import cluster_ip, vip
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, NFTABLES, Lab
from lab.xtables import IPTABLES, programs

MODES = ("nftables", "iptables", "nftables", "iptables")


def remains(lab: Lab) -> set[str]:
    """The modes of which there is something in the kernel."""
    node = lab.network.node
    saved = "".join(node.run([program]) for program in ("iptables-save", "ip6tables-save"))
    ours = (line for line in saved.splitlines() if "KUBE-FIREWALL" not in line)
    found = {"iptables"} if any("KUBE-" in line for line in ours) else set()
    return found | ({"nftables"} if "kube-proxy" in node.run(["nft", "list", "tables"]) else set())


@pytest.mark.parametrize("backend", RuleKind, ids=lambda backend: backend.value)
def test_switching_modes_loses_no_connection(
    network: Network, backend: RuleKind, tmp_path: Path
) -> None:
    documents = deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)])
    with programs(backend, tmp_path / "bin"):
        daemon = DaemonProcess(network.node, tmp_path)
        lab = Lab(network, daemon, IPTABLES[backend])
        connections = []
        try:
            for mode in MODES:
                flags = [f"--proxy-mode={mode}", CLUSTER_CIDR_FLAG]
                daemon.start(flags, (kestrel(), service_cidr(), *documents))
                connections += [
                    lab.connect(source, address, 80)
                    for family in Family
                    for source, address in (
                        ("P", cluster_ip(21, family)),
                        ("X", vip(21, family)),
                        ("H", cluster_ip(21, family)),
                    )
                ]
                wait_only(lab, mode)
                for connection in connections:
                    connection.talk()
                daemon.stop()
        finally:
            daemon.stop()
            lab.stop()
            network.node.run(NFTABLES.flush[0])


def wait_only(lab: Lab, mode: str) -> None:
    """Wait until nothing of another mode is left."""
    deadline = time.monotonic() + 60.0
    while remains(lab) != {mode}:
        assert time.monotonic() < deadline, f"in mode {mode} there are {remains(lab)}"
        time.sleep(0.05)
