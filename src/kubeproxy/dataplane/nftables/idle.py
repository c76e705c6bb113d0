"""Chains of choices that no frontend uses any more: some may stay, the rest is removed."""

from collections.abc import Collection

from kubeproxy.dataplane.nftables.state import Programmed

MOST_IDLE = 64
"""So many may stay, or a quarter as many as are used, if that is more.

A service whose endpoints come and go can leave one at every change, and needs it again soon.
"""


def too_many_idle(state: Programmed) -> set[str]:
    """All unused chains, when there are too many of them."""
    used = len(state.used)
    count = len(state.chains) + len(state.lingering) - len(state.program.chains) - used
    if count <= max(MOST_IDLE, used // 4):
        return set()
    fixed = {chain.name for chain in state.program.chains}
    return (state.chains | state.lingering) - fixed - state.used.keys()


def forget_chains(state: Programmed, gone: Collection[str]) -> None:
    """The kernel has these chains no more."""
    state.chains.difference_update(gone)
    state.lingering.difference_update(gone)
    state.numbers = {chain: at for chain, at in state.numbers.items() if chain not in gone}
