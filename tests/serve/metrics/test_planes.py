from collections.abc import Container

import pytest

from fakes.dataplane import FakeDataplane
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Dataplane, Figures
from kubeproxy.linux import nfacct, nfnetlink
from kubeproxy.serve.metrics.planes import figure_families, packet_families
from kubeproxy.table.node import Mode
from serve.metrics.exposed import shown

SYNC = "kubeproxy_sync_proxy_rules_"
LOCAL = "kubeproxy_nftables_localhost_nodeport_"


class Counting(FakeDataplane):
    """A dataplane that has counted."""

    def __init__(self, figures: Figures) -> None:
        super().__init__()
        self._figures = figures

    def figures(self) -> Figures:
        return self._figures


def planes(figures: Figures) -> dict[Family, Dataplane]:
    return {Family.IPV4: Counting(figures), Family.IPV6: FakeDataplane()}


@pytest.mark.parametrize(
    ("mode", "localhost", "figures", "expected"),
    [
        pytest.param(
            Mode.NFTABLES,
            False,
            Figures(commit_failures=0),
            {"SYNC_nftables_sync_failures_total": "0"},
            id="nothing-failed",
        ),
        pytest.param(
            Mode.NFTABLES,
            False,
            Figures(commit_failures=2, cleanup_failures=1, listeners=9),
            {
                "SYNC_nftables_cleanup_failures_total": "1",
                "SYNC_nftables_sync_failures_total": "2",
            },
            id="nftables",
        ),
        pytest.param(
            Mode.NFTABLES,
            True,
            Figures(listener_failures=3),
            {
                "LOCAL_listener_creation_failures_total": "3",
                "LOCAL_listeners": "0",
            },
            id="listeners",
        ),
        pytest.param(
            Mode.IPTABLES,
            True,
            Figures(restore_failures=4, partial_restore_failures=1),
            {
                "SYNC_iptables_partial_restore_failures_total": "1",
                "SYNC_iptables_restore_failures_total": "4",
            },
            id="iptables",
        ),
        pytest.param(
            Mode.IPVS,
            True,
            Figures(restore_failures=4),
            {"SYNC_iptables_restore_failures_total": "4"},
            id="ipvs",
        ),
    ],
)
def test_figures_of_the_mode(
    mode: Mode, localhost: bool, figures: Figures, expected: dict[str, str]
) -> None:
    found = shown(*figure_families(mode, planes(figures), localhost=localhost))
    assert expected == {brief(series): value for series, value in found.items()}


def brief(series: str) -> str:
    assert series.endswith('{ip_family="IPv4"}')
    return series.partition("{")[0].replace(SYNC, "SYNC_").replace(LOCAL, "LOCAL_")


def test_packets_of_iptables_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"ct_state_invalid_dropped_pkts": 7}

    def read(names: list[str]) -> dict[str, int]:
        return {name: there[name] for name in names if name in there}

    monkeypatch.setattr(nfacct, "read_packets", read)
    families = packet_families(Mode.IPTABLES, tuple(Family), localhost=True)
    assert len(families) == 2
    assert shown(*families) == {"kubeproxy_iptables_ct_state_invalid_dropped_packets_total": "7"}


@pytest.mark.parametrize("localhost", [True, False])
def test_packets_that_nftables_counts(monkeypatch: pytest.MonkeyPatch, localhost: bool) -> None:
    def read(family: int, _table: str, names: Container[str]) -> dict[str, int]:
        there = {"localhost-udp": 5, "affinity-full": 7} if family == 2 else {}
        return {name: packets for name, packets in there.items() if name in names}

    monkeypatch.setattr(nfnetlink, "read_counters", read)
    families = packet_families(Mode.NFTABLES, tuple(Family), localhost=localhost)
    expected = {'kubeproxy_nftables_affinity_full_total{ip_family="IPv4"}': "7"}
    if localhost:
        name = "kubeproxy_nftables_localhost_nodeport_rejected_packets_total"
        expected[f'{name}{{ip_family="IPv4",protocol="UDP"}}'] = "5"
    assert expected == shown(*families)


def test_ipvs_mode_counts_no_packets() -> None:
    assert packet_families(Mode.IPVS, tuple(Family), localhost=False) == []
