"""The tools where the daemon does not answer: it is stopped, or it was killed."""

import re
import subprocess
import sys
import time

from lab.deploy import deploy, everywhere
from lab.modes import only
from lab.stage import Lab

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
