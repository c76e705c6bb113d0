"""A running daemon shows what docs/metrics.md says: families, types and labels, no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.namespaces import Namespace
from lab.page import HEALTH
from lab.running import Running
from serve.metrics.exposed import described
from serve.metrics.table import rows
from world import Mode


@pytest.fixture(params=[Mode.NFTABLES, Mode.IPTABLES], ids=lambda mode: mode.value)
def running(
    request: pytest.FixtureRequest, _own_namespaces: None, tmp_path: Path
) -> Iterator[Running]:
    """A daemon in a network of its own: its ports and rules are its own."""
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
        running.get(f"/{page}", HEALTH)
    shown = described(running.get("/metrics")[1])
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
        and row.shown in {"always", "a sync", "a good sync", "a request", "a change"}
        and not row.name.startswith("rest_client_")
        # Manifests have no annotation that says when a change began.
        and row.name != "kubeproxy_network_programming_duration_seconds"
    }
    assert due - shown.keys() == set()


def test_the_figures_are_true(running: Running) -> None:
    running.change()
    _, text = running.get("/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    sync = "kubeproxy_sync_proxy_rules_"
    for family in Family:
        label = f'ip_family="{family.value}"'
        assert int(values[f"{sync}duration_seconds_count{{{label}}}"]) >= 2
        queued = float(values[f"{sync}last_queued_timestamp_seconds{{{label}}}"])
        assert queued <= float(values[f"{sync}last_timestamp_seconds{{{label}}}"])
        assert values[f"kubeproxy_service_ports_failed{{{label}}}"] == "0"
    assert values[f"{sync}endpoint_changes_pending"] == "0"
    assert running.get("/proxyMode") == (200, running.mode.value)
