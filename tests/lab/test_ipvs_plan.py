"""What `kube-proxy plan` says of the way from ipvs mode to another one, and what packets meet."""

import os
from pathlib import Path

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.linux.tools import RuleKind
from lab.deploy import ETP_LOCAL, RANGES, Port, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.ipvs import IPVS, flushed
from lab.launch import Program
from lab.network import Network
from lab.plan import cluster_ip, external_ip, vip
from lab.planned import (
    around,
    observe,
    planned,
    probes_of,
    really_noticed,
    said_to_be_noticed,
)
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from lab.xtables import programs
from world import NODE_ADDRESSES

NUMBERS = range(21, 25)
SOURCES = ("P", "X", "LO")
"""Not the node: it sends from the addresses that it dials, while the lab's binds its own."""


def test_those_who_notice_that_ipvs_mode_ends_are_those_that_the_plan_names(
    network: Network, tmp_path: Path
) -> None:
    documents = [
        *deploy("shop", everywhere(21), "L1 R1", [Port(node_port=31080)]),
        *deploy("closed", everywhere(22), "", [Port(node_port=31081)]),
        *deploy("near", everywhere(23), "R1", [Port(node_port=31082)], ETP_LOCAL),
        *deploy("bank", everywhere(24), "L1", [Port(node_port=31083)], RANGES),
    ]
    tcp = Protocol.TCP
    addresses = [of(number) for number in NUMBERS for of in (cluster_ip, vip, external_ip)]
    targets = [
        *((address, tcp, 80) for address in addresses),
        *around(*addresses),
        *((at, tcp, 31059 + n) for at in NODE_ADDRESSES[Family.IPV4] for n in NUMBERS),
    ]
    probed = probes_of(targets, SOURCES)
    given = (kestrel(), service_cidr(), *documents)
    with flushed(network.node), programs(RuleKind.LEGACY, tmp_path / "bin"):
        daemon = DaemonProcess(network.node, tmp_path)
        lab = Lab(network, daemon, IPVS)
        try:
            daemon.start(["--proxy-mode=ipvs", CLUSTER_CIDR_FLAG], given)
            code, plan = planned(network.node, f"--socket={daemon.socket}", "--mode=iptables")
            was = observe(lab.dialer, probed)
            daemon.stop()
            with network.node.entered():
                assert Program().tool(["--cleanup"], os.environ).code == 0
            daemon.start(["--proxy-mode=iptables", CLUSTER_CIDR_FLAG], given)
            lab.forget_connections()
            is_ = observe(lab.dialer, probed)
        finally:
            daemon.stop()
    assert "established connections" in {each.subject for each in plan.habits}
    noticed = really_noticed(was, is_)
    assert (code, bool(noticed)) == (1, True)
    assert said_to_be_noticed(plan, probed, documents) == noticed
