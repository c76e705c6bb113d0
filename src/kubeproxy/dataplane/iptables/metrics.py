"""The metrics of iptables mode: failures, and packets that rules count."""

from collections.abc import Iterator
from functools import partial

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import INVALID_COUNTER, LOCALHOST_COUNTER
from kubeproxy.dataplane.mode import Metric
from kubeproxy.dataplane.xtables_text import RESTORE_FAILURES
from kubeproxy.linux import nfacct

PARTIAL_RESTORE_FAILURES = Metric(
    "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
    "Runs of iptables-restore with changes only that failed",
)


def _packets(counter: str, _families: tuple[Family, ...]) -> Iterator[tuple[tuple[()], float]]:
    """What an nfacct counter has; it counts packets of both families."""
    for packets in nfacct.read_packets([counter]).values():
        yield (), packets


METRICS = (
    RESTORE_FAILURES,
    PARTIAL_RESTORE_FAILURES,
    Metric(
        "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
        "Packets that were dropped because conntrack knows no connection of theirs",
        labels=(),
        read=partial(_packets, INVALID_COUNTER),
    ),
    Metric(
        "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
        "Packets to node ports of 127.0.0.0/8",
        labels=(),
        read=partial(_packets, LOCALHOST_COUNTER),
    ),
)
