"""The proxy as an operator runs it: one process in the node's namespace, and its tools."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.namespaces import Namespace
from lab.plan import CLUSTER_CIDR, KESTREL

PROGRAM = (sys.executable, "-m", "kubeproxy")
CIDR_FLAG = f"--cluster-cidr={','.join(CLUSTER_CIDR.values())}"
WAIT_SECONDS = 20.0


class ProxyFailed(Exception):
    """The proxy ended, or did not do its work in time."""


class Proxy:
    """The daemon, from `start` to `stop`, on the manifests in the directory `examples`."""

    def __init__(self, node: Namespace, directory: Path, manifests: str) -> None:
        self.arguments = (f"--manifests={manifests}", f"--hostname-override={KESTREL}", CIDR_FLAG)
        self._node = node
        self._directory = directory
        self._manifests = manifests
        self._log = directory / "kube-proxy.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it ends with this process, and ignores Ctrl-C."""
        command = ["setpriv", "--pdeathsig=KILL", *PROGRAM, *self.arguments]
        with self._node.entered(), self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def wait(self, condition: Callable[[], bool], rest: float = 0.0) -> float:
        """Poll until a condition is true; returns how many seconds it took."""
        began = time.monotonic()
        while not condition():
            if not self.is_running:
                raise ProxyFailed(f"kube-proxy ended:\n{self.log_tail()}")
            if time.monotonic() > began + WAIT_SECONDS:
                raise ProxyFailed(f"kube-proxy did not finish in time:\n{self.log_tail()}")
            time.sleep(rest)
        return time.monotonic() - began

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log_tail(self) -> str:
        """The end of its log."""
        return "\n".join(self._lines()[-15:])

    def errors(self) -> list[str]:
        """The errors in its log."""
        return [line for line in self._lines() if line.startswith("E")]

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def explain(self, *arguments: str) -> str:
        """The output of `kube-proxy explain` for a packet, from the manifests."""
        return self.run_tool("explain", f"--manifests={self._manifests}", CIDR_FLAG, *arguments)

    def rendered(self) -> str:
        """The IPv4 table as `kube-proxy render` prints it for the manifests of now."""
        tables = self.run_tool(
            "render", "--mode=nftables", f"--manifests={self._manifests}", CIDR_FLAG
        )
        return tables[: tables.index("\ntable ")]

    def run_tool(self, tool: str, *arguments: str) -> str:
        """The output of one of its tools."""
        done = subprocess.run(
            [*PROGRAM, tool, *arguments],
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else done.stderr
