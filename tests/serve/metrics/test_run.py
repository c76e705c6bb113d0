from collections.abc import Container

import pytest

from fakes.dataplane import FakeDataplane
from kubeproxy.base.inet import Family
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS, Gates
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.mode import Metric
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.linux import nfacct, nfnetlink
from kubeproxy.serve.metrics.families import Reading
from kubeproxy.serve.metrics.run import mode_family
from serve.metrics.exposed import shown

SYNC = "kubeproxy_sync_proxy_rules_"
LOCAL = "kubeproxy_nftables_localhost_nodeport_"


class Counting(FakeDataplane):
    """A dataplane that has counted."""

    def __init__(self, figures: dict[str, int]) -> None:
        super().__init__()
        self._figures = figures

    def figures(self) -> dict[str, int]:
        return self._figures


def planes(figures: dict[str, int]) -> dict[Family, Dataplane]:
    return {Family.IPV4: Counting(figures), Family.IPV6: FakeDataplane()}


def metrics(mode: str, *, localhost: bool) -> tuple[Metric, ...]:
    return load_mode(mode).metrics(
        Gates(frozenset({NFTABLES_LOCALHOST_NODE_PORTS} if localhost else ()))
    )


@pytest.mark.parametrize(
    ("mode", "localhost", "expected"),
    [
        pytest.param(
            "nftables",
            False,
            ["SYNC_nftables_sync_failures_total", "SYNC_nftables_cleanup_failures_total"],
            id="nftables",
        ),
        pytest.param(
            "nftables",
            True,
            [
                "SYNC_nftables_sync_failures_total",
                "SYNC_nftables_cleanup_failures_total",
                "LOCAL_listeners",
                "LOCAL_listener_creation_failures_total",
            ],
            id="listeners",
        ),
        pytest.param(
            "iptables",
            True,
            [
                "SYNC_iptables_restore_failures_total",
                "SYNC_iptables_partial_restore_failures_total",
            ],
            id="iptables",
        ),
        pytest.param("ipvs", True, ["SYNC_iptables_restore_failures_total"], id="ipvs"),
    ],
)
def test_figures_of_the_mode(mode: str, localhost: bool, expected: list[str]) -> None:
    own = [metric for metric in metrics(mode, localhost=localhost) if metric.read is None]
    figures = {metric.name: place for place, metric in enumerate(own)}
    found = shown(*(mode_family(metric, planes(figures)) for metric in own))
    assert {brief(series): value for series, value in found.items()} == dict(
        zip(expected, map(str, figures.values()), strict=True)
    )


def kernel_families(mode: str, *, localhost: bool) -> list[Reading]:
    own = metrics(mode, localhost=localhost)
    return [mode_family(metric, planes({})) for metric in own if metric.read is not None]


def brief(series: str) -> str:
    assert series.endswith('{ip_family="IPv4"}')
    return series.partition("{")[0].replace(SYNC, "SYNC_").replace(LOCAL, "LOCAL_")


def test_packets_of_iptables_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"ct_state_invalid_dropped_pkts": 7}

    def read(names: list[str]) -> dict[str, int]:
        return {name: there[name] for name in names if name in there}

    monkeypatch.setattr(nfacct, "read_packets", read)
    families = kernel_families("iptables", localhost=True)
    assert len(families) == 2
    assert shown(*families) == {"kubeproxy_iptables_ct_state_invalid_dropped_packets_total": "7"}


@pytest.mark.parametrize("localhost", [True, False])
def test_packets_that_nftables_counts(monkeypatch: pytest.MonkeyPatch, localhost: bool) -> None:
    def read(family: int, _table: str, names: Container[str]) -> dict[str, int]:
        there = (
            {"localhost-udp": 5, "affinity-full": 7, "refused-retried": 9, "refused-given-up": 2}
            if family == 2
            else {}
        )
        return {name: packets for name, packets in there.items() if name in names}

    monkeypatch.setattr(nfnetlink, "read_counters", read)
    families = kernel_families("nftables", localhost=localhost)
    refused = "kubeproxy_nftables_refused_connections_total"
    expected = {
        'kubeproxy_nftables_affinity_full_total{ip_family="IPv4"}': "7",
        f'{refused}{{ip_family="IPv4",outcome="retried"}}': "9",
        f'{refused}{{ip_family="IPv4",outcome="given_up"}}': "2",
    }
    if localhost:
        name = "kubeproxy_nftables_localhost_nodeport_rejected_packets_total"
        expected[f'{name}{{ip_family="IPv4",protocol="UDP"}}'] = "5"
    assert expected == shown(*families)


def test_ipvs_mode_counts_no_packets() -> None:
    assert kernel_families("ipvs", localhost=False) == []
