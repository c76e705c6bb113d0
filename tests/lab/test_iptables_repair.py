"""What others do to the chains of iptables mode, and how soon the daemon repairs it."""

import fcntl
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import deploy, everywhere
from lab.foreign import foreign_changes
from lab.modes import only
from lab.plan import cluster_ip
from lab.stage import Lab
from lab.xtables import PROGRAMS, SAVE

# As it is by default: the canaries are not looked at while a test lasts.
RARELY = "--iptables-sync-period=600s"
OFTEN = "--iptables-sync-period=1s"
_REMARKS = re.compile(r"^#.*\n|\[\d+:\d+\]|^:KUBE-PROXY-CANARY.*\n", re.MULTILINE)


only_nft = only("iptables-nft", reason="the legacy tools' changes are not announced by the kernel")
only_legacy = only("iptables-legacy", reason="the nft kind has no lock")


def eventually(condition: Callable[[], bool], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def rules(lab: Lab) -> str:
    """All rules, but for counters, and for canaries, which come back later than rules."""
    return _REMARKS.sub("", lab.network.node.run(SAVE))


@only_legacy
def test_a_flush_that_meets_a_held_lock_is_repaired(lab: Lab) -> None:
    lab.run(OFTEN, documents=deploy("cart", everywhere(21), "L1 R1"))
    before = rules(lab)
    with Path("/run/xtables.lock").open("w") as lock:
        with lab.daemon.paused():
            for command in lab.variant.flush:
                lab.network.node.run(command)
            fcntl.flock(lock, fcntl.LOCK_EX)
            said = lab.daemon.log().count("Cannot check whether the rules are still there")
        eventually(
            lambda: (
                lab.daemon.log().count("Cannot check whether the rules are still there") > said
            ),
            lab.daemon.said,
        )
        assert rules(lab) != before
    eventually(lambda: rules(lab) == before, lab.daemon.said)
    assert lab.dial("P", cluster_ip(21), 80).who in ("L1", "R1")


@only_nft
@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("-t nat -F KUBE-SERVICES", id="a-chain-is-emptied"),
        pytest.param("-t filter -F KUBE-FORWARD", id="in-the-filter-table"),
        pytest.param("-t nat -F PREROUTING", id="a-jump-goes"),
        pytest.param("-t nat -I KUBE-SERVICES -j ACCEPT", id="a-rule-comes"),
    ],
)
def test_what_others_do_to_one_chain_is_repaired_at_once(
    lab: Lab, family: Family, words: str
) -> None:
    lab.run(RARELY, documents=deploy("cart", everywhere(21), "L1 R1"))
    before = rules(lab)
    with lab.daemon.paused():
        program = PROGRAMS[list(Family).index(family)]
        lab.network.node.run([program, *words.split()])
        assert rules(lab) != before
    eventually(lambda: rules(lab) == before, lab.daemon.said)


@only_nft
def test_what_we_and_others_write_elsewhere_is_no_reason_to_repair(lab: Lab) -> None:
    lab.run(RARELY, documents=deploy("cart", everywhere(21), "L1 R1"))
    before = foreign_changes(lab)
    node = lab.network.node
    for words in (
        "-t nat -N THEIRS",
        "-t nat -A THEIRS -j KUBE-MARK-MASQ",
        "-t nat -I PREROUTING -j THEIRS",
        "-t nat -D PREROUTING -j THEIRS",
        "-t nat -F THEIRS",
        "-t nat -X THEIRS",
    ):
        node.run(["iptables", *words.split()])
    for endpoints in ("L1", "L1 R1", "R1"):
        lab.put(*deploy("cart", everywhere(21), endpoints))
    # Changes are reported in order: this one is the last.
    node.run(["iptables", "-t", "nat", "-F", "KUBE-SERVICES"])
    eventually(lambda: foreign_changes(lab) != before, lab.daemon.said)
    assert foreign_changes(lab) - before == {"IPv4": 1}
