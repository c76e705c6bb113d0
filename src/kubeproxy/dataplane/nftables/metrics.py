"""The metrics of nftables mode: failures, listeners for node ports, packets that rules count."""

from collections.abc import Collection, Iterator

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.mode import Metric
from kubeproxy.dataplane.nftables import program
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.linux import nfnetlink

_SYNC = "kubeproxy_sync_proxy_rules_nftables_"
_LOCALHOST = "kubeproxy_nftables_localhost_nodeport_"
_Series = Iterator[tuple[tuple[str, ...], float]]


def _affinity_full(families: tuple[Family, ...]) -> _Series:
    for family, _, packets in _counted(families, [program.AFFINITY_FULL]):
        yield (family.value,), packets


def _rejected(families: tuple[Family, ...]) -> _Series:
    protocol_of = {name: protocol for protocol, name in program.LOCALHOST_COUNTER.items()}
    for family, name, packets in _counted(families, protocol_of):
        yield (family.value, protocol_of[name].name), packets


def _counted(
    families: tuple[Family, ...], names: Collection[str]
) -> Iterator[tuple[Family, str, int]]:
    """The packets of named counters of our tables."""
    for family in families:
        for name, packets in nfnetlink.read_counters(
            NFPROTO[family], program.TABLE, names
        ).items():
            yield family, name, packets


SYNC_FAILURES = Metric(f"{_SYNC}sync_failures_total", "Transactions that the kernel refused")
CLEANUP_FAILURES = Metric(
    f"{_SYNC}cleanup_failures_total", "Removals of unused chains that the kernel refused"
)
LISTENERS = Metric(f"{_LOCALHOST}listeners", "Listeners for node ports of localhost")
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
