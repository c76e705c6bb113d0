"""Connection tracking that fills up, in the test kernel's own network, where one may limit it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
LIMIT = 60
KUBE_PROXY = [sys.executable, "-m", "kubeproxy"]
ON_MACHINE = ["nsenter", "--net=/proc/1/ns/net"]
SENDER = """
import socket, sys
each = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(int(sys.argv[1]))]
for one in each:
    try:
        one.sendto(b"x", ("127.0.0.1", 9))
    except PermissionError:
        pass
"""


class Watched:
    """A daemon in the machine's own network, and what `status` says of it."""

    def __init__(self, directory: Path) -> None:
        self.socket = directory / "socket"
        self.log = directory / "log"
        flags = ["--proxy-mode=iptables", "--conntrack-max-per-core=0", f"--manifests={directory}"]
        flags += [
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ]
        flags += [f"--status-socket={self.socket}", "--healthz-bind-address=127.0.0.1:20256"]
        command = [*ON_MACHINE, *KUBE_PROXY, *flags, "--metrics-bind-address=127.0.0.1:20249"]
        self._log = self.log.open("w")
        self.process = subprocess.Popen(command, stderr=self._log)

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self._log.close()

    def status(self, *flags: str) -> subprocess.CompletedProcess[str]:
        command = [*ON_MACHINE, *KUBE_PROXY, "status", f"--socket={self.socket}", *flags]
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    subprocess.run(["modprobe", "nf_conntrack"], check=True)
    with ExitStack() as undo:
        before = subprocess.run(
            [*ON_MACHINE, "cat", MAX], capture_output=True, text=True, check=True
        )
        undo.callback(limit, int(before.stdout))
        found = Watched(tmp_path)
        undo.callback(found.close)
        yield found


def limit(entries: int) -> None:
    subprocess.run([*ON_MACHINE, "sh", "-c", f"echo {entries} >{MAX}"], check=True)


def eventually(right: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not right():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_full_table_is_not_well(watched: Watched) -> None:
    """Rules of iptables mode have the kernel track; the packets are datagrams to ourselves."""
    eventually(lambda: '"syncs": 1' in watched.status("-o", "json").stdout)
    limit(LIMIT)
    subprocess.run([*ON_MACHINE, sys.executable, "-c", SENDER, "200"], check=True)
    found = json.loads(watched.status("-o", "json").stdout)["conntrack"]
    assert (found["entries"] >= LIMIT, found["limit"]) == (True, LIMIT)
    done = watched.status()
    assert done.returncode == 1
    assert "Connection tracking is full" in done.stdout
    eventually(lambda: "Connection tracking is full" in watched.log.read_text())
    limit(100_000)
    done = watched.status()
    assert "Connection tracking is full" not in done.stdout
    eventually(lambda: "Connection tracking has room again" in watched.log.read_text())
