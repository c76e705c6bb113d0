"""Whether the fast path works here, for `kube-proxy check`."""

from collections.abc import Sequence

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.fastpath.selftest import self_test
from kubeproxy.dataplane.preflight import Finding, Grade, lacking, ok

_TOPIC, _WHAT = "nftables", "fast path"


def finding(families: Sequence[Family], *, wanted: bool) -> Finding:
    """Send packets through one, in namespaces of its own. Nobody misses what was not asked for."""
    why_not = self_test(families)
    if not why_not:
        return ok(_TOPIC, _WHAT, "packets of TCP and UDP were forwarded past the rules")
    if not wanted:
        return ok(_TOPIC, _WHAT, f"not asked for; it would be off here: {why_not}")
    remedy = "leave nftables.fastPath off, or use another kernel"
    return lacking(_TOPIC, _WHAT, f"it will be off: {why_not}", remedy, Grade.WARNING)
