"""The metrics of nftables mode: failures, listeners for node ports, packets that rules count."""

from collections.abc import Iterator, Mapping
from functools import partial

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.mode import Metric
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.linux import nfnetlink

_SYNC = "kubeproxy_sync_proxy_rules_nftables_"
_LOCALHOST = "kubeproxy_nftables_localhost_nodeport_"


def _packets(
    families: tuple[Family, ...], labels: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The packets of named counters of our tables; each counter has the family and its labels."""
    for family in families:
        found = nfnetlink.read_counters(NFPROTO[family], names.TABLE, labels)
        for name, packets in found.items():
            yield (family.value, *labels[name]), packets


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
    read=partial(
        _packets,
        labels={name: (each.name,) for each, name in names.LOCALHOST_COUNTER.items()},
    ),
)
AFFINITY_FULL = Metric(
    "kubeproxy_nftables_affinity_full_total",
    "Connections to services with session affinity whose client shares a place with"
    " others, because nftables.affinitySize clients are remembered already",
    read=partial(_packets, labels={names.AFFINITY_FULL: ()}),
)
REFUSED = Metric(
    "kubeproxy_nftables_refused_connections_total",
    "Refusals of endpoints that were kept from the client, who tries again, and those passed on",
    ("ip_family", "outcome"),
    read=partial(_packets, labels={names.RETRIED: ("retried",), names.GIVEN_UP: ("given_up",)}),
)


METRICS = (SYNC_FAILURES, CLEANUP_FAILURES, AFFINITY_FULL, REFUSED)
LOCALHOST_METRICS = (LISTENERS, LISTENER_FAILURES, REJECTED)
"""Those of node ports of localhost, which need a feature gate."""
