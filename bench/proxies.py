"""The proxies that are measured: commands, one configuration for all, and their processes."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from bench.clusters import NODE, POD_RANGE
from bench.processes import Memory, cpu_seconds, memory, peak
from lab.namespaces import Namespace

STOP_TIMEOUT = 60.0
SETTLE_TIMEOUT = 600.0

# Megabytes. The kernel counts pages on each processor and adds them up now and then: one peak that
# is read twice can differ.
_PEAK_NOISE = 1.0


class Proxy(msgspec.Struct, frozen=True):
    """A kube-proxy with upstream's flags, in one of its modes."""

    name: str
    binary: str
    mode: str = "nftables"
    settings: dict[str, object] = {}
    """What its config file has beyond that of all others."""
    section: dict[str, object] = {}
    """What the section of its mode has beyond that of all others."""

    @property
    def title(self) -> str:
        """Its name in tables and pictures."""
        return f"{self.name} {self.mode}"


class Cluster(Protocol):
    """What a proxy needs to know of an API server, and where its own files go."""

    directory: Path
    kubeconfig: Path


def configuration(kubeconfig: Path, proxy: Proxy) -> dict[str, object]:
    """The config file: defaults, but that nothing waits."""
    # In a file 0 means the default of a second: the shortest time that can be written is meant.
    sync: dict[str, object] = {"minSyncPeriod": "1ns"}
    sections = dict.fromkeys(("nftables", "iptables", "ipvs"), sync)
    return {
        "kind": "KubeProxyConfiguration",
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "hostnameOverride": NODE,
        "clusterCIDR": POD_RANGE,
        "mode": proxy.mode,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        # The limits of conntrack are those of the host, which is not ours.
        "conntrack": {"maxPerCore": 0, "min": 0},
        **sections,
        proxy.mode: {**sections.get(proxy.mode, {}), **proxy.section},
        **proxy.settings,
    }


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    """What a proxy gets of our environment: nothing that changes how Python runs."""
    return {name: value for name, value in ours.items() if not name.startswith("PYTHON")}


class Running:
    """A proxy that runs in a namespace."""

    def __init__(self, proxy: Proxy, namespace: Namespace, cluster: Cluster) -> None:
        config = cluster.directory / f"{proxy.mode}.conf"
        config.write_bytes(msgspec.json.encode(configuration(cluster.kubeconfig, proxy)))
        self.log = cluster.directory / f"{proxy.name}.log"
        with namespace.entered(), self.log.open("ab") as log:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                [proxy.binary, "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(os.environ),
                start_new_session=True,
            )
        self.pid = self._process.pid
        # Read after the start, or what we grew by until then would count as the proxy's.
        self._inherited = peak() + _PEAK_NOISE

    def cpu(self) -> float:
        """CPU seconds so far, with those of the programs that it ran."""
        self.check()
        return cpu_seconds(self.pid)

    def memory(self) -> Memory:
        """Its memory now."""
        self.check()
        return memory(self.pid)

    def check(self) -> None:
        """Raise when it has ended."""
        if self._process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"the proxy ended with code {self._process.returncode}:\n{tail}")

    def wait_settled(self, quiet: float) -> float:
        """When it last did something noticeable before it was quiet for so long.

        Or when the timeout is over, with one that is never quiet.
        """
        last, at = self.cpu(), time.monotonic()
        deadline = at + SETTLE_TIMEOUT
        while time.monotonic() < min(at + quiet, deadline):
            time.sleep(0.02)
            now = self.cpu()
            if now - last > quiet * 0.03:  # what a Go runtime or a poll uses at rest is less
                last, at = now, time.monotonic()
        return at

    def stop(self, by: signal.Signals = signal.SIGTERM) -> float:
        """Stop it as a node does: with SIGTERM, then SIGKILL.

        The most memory, in megabytes, that it or any program that it ran has had; 0 when that is
        not known, because it was no more than ours, which a new process begins with, or because
        it has been stopped before.
        """
        if self._process.returncode is not None:
            return 0.0
        os.kill(self.pid, by)
        deadline = time.monotonic() + STOP_TIMEOUT
        while (ended := os.wait4(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.killpg(self.pid, signal.SIGKILL)  # and the programs that keep it
            time.sleep(0.01)
        self._process.returncode = os.waitstatus_to_exitcode(ended[1])
        most = ended[2].ru_maxrss / 1024
        return most if most > self._inherited else 0.0
