"""The tools where the daemon does not answer: it is stopped, or it was killed."""

import re
import signal
import subprocess
import sys
import time

from lab.deploy import deploy, everywhere
from lab.modes import only
from lab.stage import CLUSTER_CIDR_FLAG, Lab
from world import NODE_NAME

pytestmark = only("nftables", reason="the tools are the same in every mode")


def call(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What came of a command on the node."""
    command = [sys.executable, "-m", "kubeproxy", *arguments]
    with lab.network.node.entered():
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_daemon_that_is_stopped_hangs(lab: Lab) -> None:
    lab.run(documents=deploy("novel", everywhere(21), "L1"))
    socket = f"--socket={lab.socket}"
    begun = time.monotonic()
    assert call(lab, "status", socket).returncode == 0
    answered = time.monotonic() - begun
    with lab.daemon.paused():
        begun = time.monotonic()
        done = call(lab, "status", socket)
        hung = time.monotonic() - begun
    assert done.returncode == 3
    assert done.stderr.startswith(f"Error: kube-proxy hangs: {lab.socket} takes connections")
    assert re.search(r"process \d+ is stopped by a signal: `kill -CONT \d+`", done.stderr)
    assert hung - answered < 4  # two seconds, on a machine that has time
    assert call(lab, "status", socket).returncode == 0


def test_a_daemon_that_was_killed_leaves_rules_that_the_tools_read(lab: Lab) -> None:
    lab.run(documents=deploy("novel", everywhere(21), "L1 R1"))
    socket = f"--socket={lab.socket}"
    before = call(lab, "services", "--no-rates", socket)
    lab.daemon.stop(signal.SIGKILL)
    for command in ("services", "diff"):
        done = call(lab, command, socket)
        assert done.returncode == 3
        assert "The kernel still has the rules of nftables mode" in done.stderr
        assert "give --manifests DIRECTORY or --kubeconfig FILE" in done.stderr
    cluster = (
        f"--manifests={lab.daemon.manifests}",
        f"--hostname-override={NODE_NAME}",
        CLUSTER_CIDR_FLAG,
    )
    done = call(lab, "services", socket, *cluster)
    assert (done.returncode, names(done.stdout)) == (0, names(before.stdout))
    assert call(lab, "services", "novel", socket, *cluster).returncode == 0
    same = call(lab, "diff", socket, *cluster)
    assert (same.returncode, same.stdout) == (0, ""), same
    lab.network.node.run(["nft", "add", "rule", "ip", "kube-proxy", "frontends", "drop"])
    different = call(lab, "diff", socket, *cluster)
    assert (different.returncode, "frontends drop" in different.stdout) == (1, True)
    lab.restart(signal.SIGKILL)
    assert call(lab, "diff", socket).returncode == 0


def names(table: str) -> list[str]:
    return [line.split()[0] for line in table.splitlines()[1:]]
