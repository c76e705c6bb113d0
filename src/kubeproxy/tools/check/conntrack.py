"""The trial of connection tracking, which every mode needs."""

from collections.abc import Iterable

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import NODE, Finding, State, lacking, ok
from kubeproxy.linux.conntrack import udp_flows


def listed(families: Iterable[Family]) -> list[Finding]:
    """List the UDP flows of each family. For a scratch namespace, which has none."""
    what = "conntrack"
    try:
        for family in families:
            list(udp_flows(family))
    except KernelError as error:
        return [
            lacking(
                NODE,
                what,
                f"flows to endpoints that are gone cannot be forgotten: {error}",
                "modprobe nf_conntrack_netlink",
                State.WARNING,
            )
        ]
    return [ok(NODE, what, "flows can be listed, and stale ones forgotten")]
