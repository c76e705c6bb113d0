"""A running daemon shows what docs/metrics.md says: families, types and labels, no others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.inet import Family
from kubeproxy.table.node import Mode
from lab.deploy import Port, deploy, everywhere
from lab.documents import kestrel, service_cidr
from lab.namespaces import Namespace
from lab.programmer import DaemonProcess
from lab.stage import CLUSTER_CIDR_FLAG
from metrics.exposed import described
from metrics.table import rows

GATE = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"
_FETCH = "import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())"


class Running:
    """A daemon of one mode, and what it says on its ports."""

    def __init__(self, node: Namespace, mode: Mode, directory: Path) -> None:
        self.mode = mode
        self.daemon = DaemonProcess(node, directory)
        self._node = node
        self._documents = deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)])

    def start(self) -> None:
        flags = [f"--proxy-mode={self.mode.value}", CLUSTER_CIDR_FLAG, GATE]
        # The machine's own conntrack settings are not this namespace's to change.
        flags += ["--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"]
        flags += ["--conntrack-tcp-timeout-close-wait=0s"]
        self.daemon.start(flags, (kestrel(), service_cidr(), *self._documents))

    def change(self) -> None:
        """Have both families sync something."""
        self.daemon.put((kestrel(), service_cidr(), *self._documents))

    def get(self, address: str) -> str:
        with self._node.entered():
            done = subprocess.run(
                [sys.executable, "-c", _FETCH, f"http://127.0.0.1:{address}"],
                capture_output=True,
                check=True,
            )
        return done.stdout.decode()


@pytest.fixture(params=[Mode.NFTABLES, Mode.IPTABLES], ids=lambda mode: mode.value)
def running(
    request: pytest.FixtureRequest, _own_namespaces: None, tmp_path: Path
) -> Iterator[Running]:
    """A daemon in a network of its own: its ports and rules are nobody else's."""
    node = Namespace("metrics")
    node.run(["ip", "link", "set", "lo", "up"])
    running = Running(node, request.param, tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.daemon.stop()
        node.close()


def test_a_scrape_shows_what_is_documented(running: Running) -> None:
    running.change()
    for page in ("healthz", "livez"):
        running.get(f"10256/{page}")
    shown = described(running.get("10249/metrics"))
    documented = {
        row.name: (row.kind, row.labels)
        for row in rows()
        if row.is_in(running.mode, localhost=True)
    }
    assert {name: documented.get(name) for name in shown} == shown
    due = {
        row.name
        for row in rows()
        if row.is_in(running.mode, localhost=True)
        and row.shown in {"always", "a request", "a change"}
        and not row.name.startswith("rest_client_")
        # Manifests have no annotation that tells when a change began.
        and row.name != "kubeproxy_network_programming_duration_seconds"
    }
    assert due - shown.keys() == set()


def test_the_figures_are_true(running: Running) -> None:
    running.change()
    text = running.get("10249/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    sync = "kubeproxy_sync_proxy_rules_"
    for family in Family:
        label = f'ip_family="{family.value}"'
        assert int(values[f"{sync}duration_seconds_count{{{label}}}"]) >= 2
        queued = float(values[f"{sync}last_queued_timestamp_seconds{{{label}}}"])
        assert queued <= float(values[f"{sync}last_timestamp_seconds{{{label}}}"])
        assert values[f"kubeproxy_service_ports_failed{{{label}}}"] == "0"
    assert values[f"{sync}endpoint_changes_pending"] == "0"
    assert running.get("10249/proxyMode") == running.mode.value
