"""From the start of the process to its first answer, against an API server."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.objects import daemon_set
from deploy.overlays import MODES, overlay
from lab.namespaces import Namespace
from lab.page import HEALTH, ask
from world import NODE_NAME

ROOT = Path(__file__).parents[2]
KUBE_PROXY = (sys.executable, "-m", "kubeproxy")
# The machine's own settings are not this namespace's to change.
FLAGS = (
    *("--cluster-cidr=10.64.0.0/14,fd40::/48", f"--hostname-override={NODE_NAME}"),
    *("--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"),
    *("--conntrack-tcp-timeout-close-wait=0s", "--status-socket="),
)


@pytest.fixture
def node(_own_namespaces: None) -> Iterator[Namespace]:
    """A network in which nothing else runs."""
    node = Namespace("start")
    node.run(["ip", "link", "set", "lo", "up"])
    yield node
    node.close()


@contextlib.contextmanager
def started(node: Namespace, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A program of the node."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with node.entered():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextlib.contextmanager
def api_server(node: Namespace) -> Iterator[str]:
    """A server that has the examples; what is yielded is a kubeconfig for it."""
    options = ("--tls", "--token=secret", f"--manifests={ROOT / 'examples'}")
    with started(node, sys.executable, "-m", "fakes.apiserver", *options) as server:
        assert server.stdout is not None
        said = [server.stdout.readline() for _ in range(2)]
        yield said[1].strip().removeprefix("export KUBECONFIG=")


def seconds_used(process: subprocess.Popen[str]) -> float:
    """Processor time so far: unlike time on the clock, it has no other process's work in it."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_the_first_probe_comes_when_the_port_is_open(node: Namespace, mode: str) -> None:
    """With time to spare: nodes are slower than this machine, and busy when they start."""
    flags = (*FLAGS, f"--proxy-mode={mode}")
    with (
        api_server(node) as kubeconfig,
        started(node, *KUBE_PROXY, f"--kubeconfig={kubeconfig}", *flags) as proxy,
    ):
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                assert ask(node, "/livez", port=HEALTH)[0] == 200
                break
            assert time.monotonic() < deadline, "nothing listens"
            time.sleep(0.005)
        used = seconds_used(proxy)
    for folder in MODES:
        probe = daemon_set(overlay(folder)).pod.containers[0].startup_probe
        assert probe is not None
        assert used < probe.initial_delay_seconds / 2
