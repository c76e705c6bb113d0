"""What `kube-proxy plan` says of a change, and what real packets meet before it and after it.

These clients and only these notice it, at these destinations and only at these.
"""

import re
from pathlib import Path

import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import RuleKind
from lab.deploy import ETP_LOCAL, RANGES, Port, affinity, deploy, everywhere
from lab.differ import remembered
from lab.documents import kestrel, service_cidr
from lab.network import Network
from lab.outcome import Fate
from lab.pairs import Pair
from lab.plan import HOSTS, cluster_ip, external_ip, vip
from lab.planned import (
    around,
    observe,
    planned,
    probes_of,
    really_noticed,
    run_plan,
    said_to_be_noticed,
    write_change,
)
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from lab.test_iptables_switch import wait_only
from lab.xtables import IPTABLES, programs
from world import Document

NODE_PORT = 31080
NODE = HOSTS["H"].ipv4
OTHER = "198.51.100.77"
COUNTERS = re.compile(r"\[\d+:\d+\]|packets \d+ bytes \d+")
SOURCES = ("P", "H", "X", "LO")


def shop(endpoints: str, spec: Document | None = None, number: int = 21) -> list[Document]:
    return deploy("shop", everywhere(number), endpoints, [Port(node_port=NODE_PORT)], spec)


def pairs(lab: Lab, *numbers: int) -> list[Pair]:
    """Everybody at every frontend of Services, and beside them.

    In ipvs mode the node sends from the addresses that it dials, while the lab's binds its own.
    """
    sources = [
        each for each in SOURCES if each != "H" or not lab.variant.mode.quirks.binds_addresses
    ]
    tcp = Protocol.TCP
    targets: list[tuple[str, Protocol | None, int]] = []
    for number in numbers or (21,):
        addresses = cluster_ip(number), vip(number), external_ip(number)
        targets += [(address, tcp, 80) for address in addresses]
        targets += around(*addresses)
    ports = [(address, tcp, NODE_PORT) for address in (NODE, OTHER, "127.0.0.1")]
    return probes_of([*targets, *ports], sources)


CHANGES = {
    "nothing": (shop("L1 R1"), shop("L1 R1")),
    "an-endpoint-more": (shop("L1"), shop("L1 R1")),
    "an-endpoint-less": (shop("L1 R1"), shop("R1")),
    "other-endpoints": (shop("L1"), shop("L2 R1")),
    "no-endpoint-is-left": (shop("L1 R1"), shop("L1:stopped")),
    "the-first-endpoint": (shop(""), shop("L1")),
    "local-with-one-here": (shop("L1 R1"), shop("L1 R1", ETP_LOCAL)),
    "local-with-none-here": (shop("R1"), shop("R1", ETP_LOCAL)),
    "source-ranges-that-have-x": (shop("L1"), shop("L1", RANGES)),
    "source-ranges-without-x": (
        shop("L1"),
        shop("L1", {"loadBalancerSourceRanges": ["198.51.100.0/24"]}),
    ),
    "another-address": (shop("L1"), shop("L1", number=22)),
    "session-affinity": (shop("L1"), shop("L1", affinity())),
}


@pytest.mark.parametrize("name", CHANGES)
def test_those_who_notice_a_change_are_those_that_the_plan_names(
    lab: Lab, name: str, tmp_path: Path
) -> None:
    before, after = CHANGES[name]
    lab.run(documents=before)
    change = write_change(tmp_path / "change.yaml", after)
    # The daemon, which goes on to write in its own time, sleeps meanwhile.
    with remembered(lab.daemon, tmp_path) as answering, lab.daemon.paused():
        kernel = kernel_of(lab)
        code, plan = planned(lab.network.node, f"--socket={answering.socket}", "-f", change)
        assert kernel_of(lab) == kernel
    probed = pairs(lab, 21, 22)
    was = observe(lab.dialer, probed)
    lab.put(*after)
    lab.forget_connections()
    is_ = observe(lab.dialer, probed)
    assert said_to_be_noticed(plan, probed, [*before, *after]) == really_noticed(was, is_)
    noticed = any(each.notices for each in plan.services) or bool(plan.addresses)
    assert code == int(noticed)
    assert Fate.FAILED not in {
        seen[0] for found in (was, is_) for s in found.values() for seen in s
    }


def kernel_of(lab: Lab) -> tuple[int, str]:
    """The last transaction that the kernel committed, and the rules, but for their counters."""
    with lab.network.node.entered(), Nfnetlink() as kernel:
        generation = kernel.generation()
    said = lab.rules().splitlines()
    # In ipvs mode, a real server of an earlier test may be draining.
    lines = [each for each in said if not each.startswith("#") and not each.endswith(" -w 0")]
    return generation, COUNTERS.sub("", "\n".join(lines))


def test_a_service_that_is_deleted(lab: Lab) -> None:
    lab.run(documents=shop("L1 R1"))
    flags = [f"--socket={lab.socket}", "--delete=service/mall/shop"]
    _, plan = planned(lab.network.node, *flags)
    probed = pairs(lab)
    was = observe(lab.dialer, probed)
    lab.put()
    lab.forget_connections()
    is_ = observe(lab.dialer, probed)
    assert said_to_be_noticed(plan, probed, ()) == really_noticed(was, is_)


# --- modes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "modes", [("iptables", "nftables"), ("nftables", "iptables")], ids="-".join
)
def test_those_who_notice_another_mode_are_those_that_the_plan_names(
    network: Network, modes: tuple[str, str], tmp_path: Path
) -> None:
    documents = [
        *shop("L1 R1"),
        *deploy("closed", everywhere(22), "", [Port(node_port=31081)]),
        *deploy("near", everywhere(23), "R1", [Port(node_port=31082)], ETP_LOCAL),
        *deploy("bank", everywhere(24), "L1", [Port(node_port=31083)], RANGES),
    ]
    ports = [
        (address, Protocol.TCP, port)
        for address in (NODE, OTHER, "127.0.0.1")
        for port in range(NODE_PORT + 1, NODE_PORT + 4)
    ]
    with programs(RuleKind.NFT, tmp_path / "bin"):
        daemon = DaemonProcess(network.node, tmp_path)
        lab = Lab(network, daemon, IPTABLES[RuleKind.NFT])
        probed = [*pairs(lab, 21, 22, 23, 24), *probes_of(ports, SOURCES)]
        given = (kestrel(), service_cidr(), *documents)
        try:
            daemon.start([f"--proxy-mode={modes[0]}", CLUSTER_CIDR_FLAG], given)
            wait_only(lab, modes[0])
            kernel = kernel_of(lab)
            flags = [f"--socket={daemon.socket}", f"--mode={modes[1]}"]
            code, plan = planned(network.node, *flags)
            assert kernel_of(lab) == kernel
            was = observe(lab.dialer, probed)
            daemon.stop()
            daemon.start([f"--proxy-mode={modes[1]}", CLUSTER_CIDR_FLAG], given)
            wait_only(lab, modes[1])
            lab.forget_connections()
            is_ = observe(lab.dialer, probed)
        finally:
            daemon.stop()
            lab.stop()
            network.node.run(["nft", "flush", "ruleset"])
    noticed = really_noticed(was, is_)
    assert (code, bool(noticed)) == (1, True)
    assert said_to_be_noticed(plan, probed, documents) == noticed


def test_rules_of_others_are_found_on_the_node(network: Network, tmp_path: Path) -> None:
    with programs(RuleKind.NFT, tmp_path / "bin"):
        daemon = DaemonProcess(network.node, tmp_path)
        lab = Lab(network, daemon, IPTABLES[RuleKind.NFT])
        node = network.node
        try:
            given = (kestrel(), service_cidr(), *shop("L1"))
            daemon.start(["--proxy-mode=iptables", CLUSTER_CIDR_FLAG], given)
            node.run(["iptables", "-A", "FORWARD", "-s", "203.0.113.99", "-j", "DROP"])
            node.run(["iptables", "-t", "nat", "-N", "MINE"])
            node.run(["iptables", "-t", "nat", "-A", "MINE", "-j", "KUBE-MARK-MASQ"])
            _, plan = planned(node, f"--socket={daemon.socket}", "--mode=nftables")
            ran = run_plan(node, f"--socket={daemon.socket}", "--mode=nftables")
        finally:
            daemon.stop()
            lab.stop()
            node.run(["nft", "flush", "ruleset"])
    found = {each.rule for each in plan.foreign_rules}
    assert found == {
        "-t nat -A MINE -j KUBE-MARK-MASQ",
        "-t filter -A FORWARD -s 203.0.113.99/32 -j DROP",
    }
    assert "Rules of other programs that rely on this mode" in ran.out
