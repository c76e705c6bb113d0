"""In the guest: what others destroy is repaired, a killed daemon goes on, and nothing remains."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial

from kernels.packets import cluster
from kernels.report import Report
from kubeproxy.base.inet import Family
from lab.cleaning import cleaned
from lab.differ import EQUAL, run_diff
from lab.generations import Generations
from lab.plan import cluster_ip
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from world import Mode

SECONDS = 60.0
KEYWORD = {Family.IPV4: "ip", Family.IPV6: "ip6"}
_OURS = re.compile(r"(?i)kube(?!-firewall)")
"""The kubelet makes a chain KUBE-FIREWALL too: it stays."""
_COUNTED = re.compile(r"\[\d+:\d+\]|packets \d+ bytes \d+|expires \w+")
_SYNCED = re.compile(r'"Synced" .*ipFamily="?(IPv[46])')


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS:g} s"
        time.sleep(0.05)


def _serves(lab: Lab, family: Family) -> bool:
    return lab.dial("P", cluster_ip(21, family), 80).who in ("L1", "R1")


def _is_equal(lab: Lab) -> bool:
    return run_diff(lab.network.node, f"--socket={lab.socket}") == EQUAL


def repair(lab: Lab, report: Report) -> None:
    """Tables, maps, elements and rules of nftables mode."""
    node = lab.network.node
    for family in Family:
        table = f"{KEYWORD[family]} kube-proxy"
        destroyed = {
            "the table is deleted": f"delete table {table}",
            "a map is flushed": f"flush map {table} service-endpoints",
            "a chain is flushed": f"flush chain {table} frontends",
        }
        for name, script in destroyed.items():
            with report.check(f"{name}, {family.value}"):
                node.run(["nft", script])
                eventually(partial(_serves, lab, family), name)
    with report.check("all rules are deleted at once"):
        node.run(["nft", "flush", "ruleset"])
        for family in Family:
            eventually(partial(_serves, lab, family), "flushed")
    with report.check("diff finds no difference after the repairs"):
        eventually(lambda: _is_equal(lab), "diff")


def restart(lab: Lab, report: Report) -> None:
    """kill -9: traffic goes on, and the next process writes nothing."""
    lab.put(*cluster())
    before = lab.rules()
    lab.daemon.stop(signal.SIGKILL)
    for family in Family:
        with report.check(f"traffic goes on without a daemon, {family.value}"):
            assert _serves(lab, family)
    is_nftables = lab.variant.mode is Mode.NFTABLES
    with report.check(f"it starts again: {'nothing is written' if is_nftables else 'same rules'}"):
        seen = len(lab.daemon.log())
        with Generations(lab.network.node) as generations:
            lab.daemon.launch(_flags(lab))
            eventually(lambda: len(_synced(lab, seen)) == 2, "the first syncs")
        if is_nftables:
            assert generations.seen == [], f"it wrote {generations.seen}"
        assert _rules(before) == _rules(lab.rules())
    if is_nftables:
        with report.check("diff finds no difference after the restart"):
            eventually(lambda: _is_equal(lab), "diff")


def _flags(lab: Lab) -> list[str]:
    return [*lab.variant.flags, CLUSTER_CIDR_FLAG]


def _synced(lab: Lab, seen: int) -> set[str]:
    return set(_SYNCED.findall(lab.daemon.log()[seen:]))


def _rules(text: str) -> list[str]:
    """The rules without remarks and counters."""
    kept = (line for line in text.splitlines() if not line.startswith("#"))
    return [_COUNTED.sub("", line) for line in kept]


def cleanup(lab: Lab, report: Report) -> None:
    """`--cleanup`, and what is left."""
    lab.daemon.stop()
    node = lab.network.node
    with report.check("--cleanup ends with 0"):
        code, said = cleaned(node)
        assert code == 0, said
    with report.check("nothing of kube-proxy is left"):
        for command in (
            ["nft", "list", "ruleset"],
            ["iptables-legacy-save"],
            ["ip6tables-legacy-save"],
            ["ipset", "list", "-n"],
            ["ipvsadm", "-Sn"],
            ["ip", "link", "show"],
        ):
            left = [line for line in _output(lab, command) if _OURS.search(line)]
            assert left == [], f"{command[0]}: {left[:5]}"
    if lab.variant.mode is Mode.NFTABLES:  # a process costs much here
        with report.check("a second --cleanup finds nothing"):
            assert "There is nothing to remove" in cleaned(node)[1]


def _output(lab: Lab, command: list[str]) -> list[str]:
    with lab.network.node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()
