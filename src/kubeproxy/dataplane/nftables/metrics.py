"""The metrics of nftables mode: failures, listeners for node ports, packets that rules count."""

from collections.abc import Collection, Iterator

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.mode import Metric

_SYNC = "kubeproxy_sync_proxy_rules_nftables_"
_LOCALHOST = "kubeproxy_nftables_localhost_nodeport_"
_Series = Iterator[tuple[tuple[str, ...], float]]


def _affinity_full(families: tuple[Family, ...]) -> _Series:
    from kubeproxy.dataplane.nftables.program import AFFINITY_FULL  # noqa: PLC0415  # on a scrape

    for family, _, packets in _counted(families, [AFFINITY_FULL]):
        yield (family.value,), packets


def _rejected(families: tuple[Family, ...]) -> _Series:
    from kubeproxy.dataplane.nftables.program import LOCALHOST_COUNTER  # noqa: PLC0415  # as above

    protocol_of = {name: protocol for protocol, name in LOCALHOST_COUNTER.items()}
    for family, name, packets in _counted(families, protocol_of):
        yield (family.value, protocol_of[name].name), packets


def _counted(
    families: tuple[Family, ...], names: Collection[str]
) -> Iterator[tuple[Family, str, int]]:
    """The packets of named counters of our tables."""
    from kubeproxy.dataplane.nftables.expressions import NFPROTO  # noqa: PLC0415  # as above
    from kubeproxy.dataplane.nftables.program import TABLE  # noqa: PLC0415
    from kubeproxy.linux.nftcounters import read_packets  # noqa: PLC0415

    for family in families:
        for name, packets in read_packets(NFPROTO[family], TABLE, names).items():
            yield family, name, packets


SYNC_FAILURES = Metric(f"{_SYNC}sync_failures_total", "Transactions that the kernel refused")
CLEANUP_FAILURES = Metric(
    f"{_SYNC}cleanup_failures_total", "Removals of unused chains that the kernel refused"
)
LISTENERS = Metric(
    f"{_LOCALHOST}listeners", "Listeners for node ports of localhost", is_gauge=True
)
LISTENER_FAILURES = Metric(
    f"{_LOCALHOST}listener_creation_failures_total",
    "Times that a listener for a node port of localhost could not be opened",
)
REJECTED = Metric(
    f"{_LOCALHOST}rejected_packets_total",
    "Packets to node ports of localhost without a listener",
    ("ip_family", "protocol"),
    read=_rejected,
)
AFFINITY_FULL = Metric(
    "kubeproxy_nftables_affinity_full_total",
    "Connections to services with session affinity whose client shares a place with"
    " others, because nftables.affinitySize clients are remembered already",
    read=_affinity_full,
)


METRICS = (SYNC_FAILURES, CLEANUP_FAILURES, AFFINITY_FULL)
LOCALHOST_METRICS = (LISTENERS, LISTENER_FAILURES, REJECTED)
"""Those of node ports of localhost, which need a feature gate."""
