"""docs/metrics.md has every family that there is, with its type and labels, and no others."""

from collections import Counter
from pathlib import Path

import pytest

from fakes.dataplane import FakeDataplane
from kubeproxy.app.daemon import Daemon
from kubeproxy.app.wiring import Setup
from kubeproxy.base.inet import Family
from kubeproxy.cluster.manifests.source import Manifests
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES
from kubeproxy.serve.metrics.client import ClientMetrics
from serve.metrics.table import rows
from world import Mode

# Only a dataplane that counts connections, or has a fast path, has these.
TRAFFIC = {
    "kubeproxy_fast_path",
    "kubeproxy_fast_path_devices",
    "kubeproxy_fast_path_connections",
    "kubeproxy_service_connections_total",
    "kubeproxy_endpoint_connections_total",
    "kubeproxy_connections_series",
}


@pytest.mark.parametrize("localhost", [False, True])
@pytest.mark.parametrize("mode", Mode)
async def test_every_family_is_documented_and_the_other_way_round(
    mode: Mode, localhost: bool, tmp_path: Path
) -> None:
    gate = f"{NFTABLES_LOCALHOST_NODE_PORTS}={str(localhost).lower()}"
    loaded = load(parse_flags([f"--proxy-mode={mode.value}", f"--feature-gates={gate}"]), MODES)
    setup = Setup(
        config=loaded.config,
        gates=loaded.gates,
        node_name="kestrel",
        source=Manifests((str(tmp_path),), "kestrel"),
        families=tuple(Family),
        dataplane=lambda _: FakeDataplane(),
        metrics=tuple(ClientMetrics().families()),
    )
    families = [family.about for family in Daemon(setup).parts.registry.families()]
    actual = {
        about.name: (about.kind.value, frozenset(about.labels))
        for about in families
        if about.name not in TRAFFIC
    }
    expected = {
        row.name: (row.kind, row.labels)
        for row in rows()
        if row.is_in(mode, localhost=localhost) and row.name not in TRAFFIC
    }
    assert expected == actual


def test_every_metric_has_one_row() -> None:
    counted = Counter(row.name for row in rows())
    assert {name for name, count in counted.items() if count > 1} == set()
    assert len(counted) > 70


def test_what_is_absent_has_a_reason() -> None:
    absent = [row for row in rows() if row.ours.startswith("absent")]
    assert absent
    assert all(row.ours.startswith("absent: ") and not row.modes for row in absent)
