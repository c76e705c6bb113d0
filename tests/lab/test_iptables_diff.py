"""`kube-proxy diff` in iptables mode, with both kinds of its programs.

With the nft kind the daemon repairs at once what others change: it is stopped while they do, and
a process that remembers its answers is asked.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import LARGE_CLUSTER
from kubeproxy.linux.tools import RuleKind
from lab.deploy import Address, Port, deploy, everywhere, mall
from lab.differ import EQUAL, remembered, run_diff, run_diff_in_terminal
from lab.plan import cluster_ip
from lab.stage import Lab
from lab.xtables import PROGRAMS, programs
from world import Document

SELDOM = "--iptables-sync-period=1h"
FORWARDING = "kubernetes forwarding rules"
NO_SERVICE = "@@ of no service port @@"


@pytest.fixture
def paused(lab: Lab, tmp_path: Path) -> Iterator[str]:
    """The mall is programmed, and what is changed now is put right only afterwards."""
    lab.run(SELDOM, documents=mall())
    with remembered(lab.daemon, tmp_path) as answering, lab.daemon.paused():
        yield f"--socket={answering.socket}"
    lab.restart()
    assert run_diff(lab.network.node, f"--socket={lab.socket}") == EQUAL


@pytest.fixture
def socket(lab: Lab) -> str:
    """Where the daemon is asked."""
    return f"--socket={lab.socket}"


def test_nothing_after_a_start_and_after_changes(lab: Lab, socket: str) -> None:
    lab.run(SELDOM, documents=mall())
    assert run_diff(lab.network.node, socket) == EQUAL
    for endpoints in ("L1 L2 R1 R2", "R2 L2", "R2 R1 L2", ""):
        lab.put(*mall(), *deploy("more", everywhere(40), endpoints, [Port(node_port=31100)]))
        assert run_diff(lab.network.node, socket) == EQUAL


def rules(lab: Lab) -> list[str]:
    return [line for line in lab.rules().splitlines() if line.startswith("-A ")]


def unready(count: int) -> list[Document]:
    """A Service with so many endpoints that no client is sent to."""
    documents = deploy("idle", Address(40), "")
    for document in documents:
        if "addressType" in document:
            start = "fd77::" if document["addressType"] == Family.IPV6.value else "10.77.0.0"
            addresses = (ip_address(start) + number for number in range(1, count + 1))
            document["endpoints"] = [
                {"addresses": [str(each)], "conditions": {"ready": False}} for each in addresses
            ]
    return documents


def test_nothing_when_a_cluster_grows_large(lab: Lab, socket: str) -> None:
    """From then on rules of endpoints have no comments; those from before keep theirs."""
    lab.run(SELDOM, documents=mall())
    lab.put(*mall(), *unready(LARGE_CLUSTER))
    lab.put(*mall(), *unready(LARGE_CLUSTER), *deploy("late", everywhere(41), "L1 R1"))
    endpoints = [line for line in rules(lab) if line.startswith("-A KUBE-SEP-")]
    without = [line for line in endpoints if "--comment" not in line]
    assert 0 < len(without) < len(endpoints)
    assert run_diff(lab.network.node, socket) == EQUAL


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_changes_of_others_are_shown(lab: Lab, paused: str, family: Family) -> None:
    node, program = lab.network.node, PROGRAMS[list(Family).index(family)]
    led = next(
        line
        for line in node.run([program, "-S", "KUBE-SERVICES", "-t", "nat"]).splitlines()
        if "mall/cart:" in line
    )
    chain = led.split()[-1]
    nat, jump = [program, "-w", "-t", "nat"], ["-m", "comment", "--comment", FORWARDING]
    node.run([*nat, "-F", chain])
    node.run([*nat, "-A", chain, "-j", "RETURN"])
    node.run([*nat, "-A", "KUBE-NODEPORTS", "-p", "tcp", "--dport", "7", "-j", "RETURN"])
    node.run([program, "-w", "-D", "FORWARD", *jump, "-j", "KUBE-FORWARD"])
    before = rules(lab)
    ran = run_diff(node, paused)
    assert rules(lab) == before, "it only looks"
    assert ran.code == 1, ran
    assert ran.lines[:6] == [
        f"--- kernel ({family.value}, iptables)",
        "+++ desired",
        NO_SERVICE,
        "- -t nat -A KUBE-NODEPORTS -p tcp -m tcp --dport 7 -j RETURN",
        f"+ -t filter -I FORWARD -m comment --comment '{FORWARDING}' -j KUBE-FORWARD",
        "@@ mall/cart:tcp-80 @@",
    ]
    removed, masquerade, first, last = ran.lines[6:]
    assert removed == f"- -t nat -A {chain} -j RETURN"
    assert masquerade.startswith(f"+ -t nat -A {chain} ")
    assert f"-d {cluster_ip(21, family)} --dport 80" in masquerade
    assert "--probability 0.5000000000 -j KUBE-SEP-" in first
    assert " -j KUBE-SEP-" in last
    shown = run_diff_in_terminal(node, paused)
    assert f"\x1b[31m{removed}\x1b[0m" in shown.lines


def test_a_table_that_was_emptied(lab: Lab, paused: str) -> None:
    node = lab.network.node
    node.run(["iptables", "-w", "-t", "nat", "-F"])
    ran = run_diff(node, paused, "--limit=10")
    assert ran.code == 1, ran
    assert ran.lines[0] == "--- kernel (IPv4, iptables)"
    assert len([line for line in ran.lines if line.startswith("+ -t nat ")]) == 10
    assert ran.lines[-1].endswith("more: --limit 0 shows all")


def test_a_command_with_the_other_kind_of_programs(lab: Lab, socket: str, tmp_path: Path) -> None:
    lab.run(SELDOM, documents=mall())
    other = RuleKind.LEGACY if lab.variant.programs is RuleKind.NFT else RuleKind.NFT
    with programs(other, tmp_path / "bin"):
        ran = run_diff(lab.network.node, socket, "--family=IPv4")
    assert ran.code == 1, ran
    assert "another kind of iptables than this command" in ran.lines[3]


def test_without_the_right_to_read_the_kernel(lab: Lab, socket: str) -> None:
    lab.run(SELDOM, documents=mall())
    lost = "-net_admin,-net_raw"
    confined = ("setpriv", f"--bounding-set={lost}", f"--inh-caps={lost}")
    ran = run_diff(lab.network.node, socket, through=confined)
    assert (ran.code, ran.out) == (2, "")
    assert "CAP_NET_ADMIN" in ran.err
    assert "Traceback" not in ran.err
