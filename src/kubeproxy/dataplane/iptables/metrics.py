"""The metrics of iptables mode: failures, and packets that rules count."""

from collections.abc import Iterator

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import INVALID_COUNTER, LOCALHOST_COUNTER
from kubeproxy.dataplane.mode import Metric
from kubeproxy.dataplane.xtables_text import RESTORE_FAILURES
from kubeproxy.linux import nfacct

PARTIAL_RESTORE_FAILURES = Metric(
    "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
    "Runs of iptables-restore with changes only that failed",
)


def _packets(name: str, help_: str, counter: str) -> Metric:
    """What an nfacct counter has; it counts packets of both families."""

    def read(_families: tuple[Family, ...]) -> Iterator[tuple[tuple[str, ...], float]]:
        for packets in nfacct.read_packets([counter]).values():
            yield (), packets

    return Metric(name, help_, (), read=read)


METRICS = (
    RESTORE_FAILURES,
    PARTIAL_RESTORE_FAILURES,
    _packets(
        "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
        "Packets that were dropped because conntrack knows no connection of theirs",
        INVALID_COUNTER,
    ),
    _packets(
        "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
        "Packets to node ports of 127.0.0.0/8",
        LOCALHOST_COUNTER,
    ),
)
