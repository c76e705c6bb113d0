"""What iptables mode leaves in the kernel, and what userspace mode left before it."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubeproxy.dataplane.leftovers import Leftover
from kubeproxy.dataplane.xtables_chains import Chains, chain_leftover, own_by_mode


def leftovers(found: Iterable[Chains], kind: str) -> Iterator[Leftover]:
    """The chains; `kind` is that of the programs here. No mode takes over those of userspace."""
    for chains in found:
        own = own_by_mode(chains.own)
        if own.userspace:
            old = chain_leftover(replace(chains, own=own.userspace), kind, "userspace")
            yield old._replace(own=old.beside)
        if own.iptables:
            yield chain_leftover(replace(chains, own=own.iptables), kind, "iptables")
