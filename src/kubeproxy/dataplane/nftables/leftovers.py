"""What nftables mode leaves in the kernel, of this program or of upstream."""

from collections.abc import Iterator, Mapping

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.leftovers import REMOVED, Fate, Leftover

_KEYWORD = {Family.IPV4: "ip", Family.IPV6: "ip6"}


def leftovers(tables: Mapping[Family, bool]) -> Iterator[Leftover]:
    """The tables; for each family that has one, whether this program made it."""
    for ours in sorted(set(tables.values())):
        families = [_KEYWORD[family] for family, own in tables.items() if own is ours]
        whose = "this program's" if ours else "another kube-proxy's"
        there = f"{whose}, {' and '.join(families)}"
        taken = (
            "taken over, and what differs is written" if ours else "replaced in one transaction"
        )
        yield Leftover("nftables table kube-proxy", there, Fate(taken), REMOVED, REMOVED)
