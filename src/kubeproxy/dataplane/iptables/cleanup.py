"""Removes the chains of kube-proxy, those of ipvs mode too, and the nfacct counters."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import COUNTERS
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.xtables_chains import (
    Removal,
    chain_removals,
    deletion,
    is_kubelets_chain,
    is_own_chain,
)
from kubeproxy.dataplane.xtables_nft import nft_chains
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.linux.legacytables import legacy_chains
from kubeproxy.linux.nfacct import delete_counters
from kubeproxy.linux.tools import RuleKind, ToolFailed, find_iptables, run

_NFACCT_MODULE = Path("/sys/module/nfnetlink_acct")
_LOCK_SECONDS = "5"
_SHOWN = 10  # of what may be thousands
_NEEDS = {
    RuleKind.LEGACY: "CAP_NET_ADMIN, CAP_NET_RAW and a writable /run/xtables.lock",
    RuleKind.NFT: "CAP_NET_ADMIN",
}

_Kubelets = Mapping[str, list[str]]
"""For each program the kubelet's chains."""


def clean_up(cleanup: Cleanup) -> None:
    """Remove the chains of both kinds of iptables, then the counters that rules count with."""
    kubelets = defaultdict[str, list[str]](list)
    for family in Family:
        with cleanup.step():
            _remove_own(cleanup, family, RuleKind.LEGACY, kubelets)
        if cleanup.has_nf_tables:
            with cleanup.step():
                _remove_own(cleanup, family, RuleKind.NFT, kubelets)
    for program, chains in kubelets.items():
        cleanup.keep(
            "Chains stay: they are the kubelet's. Where no kubelet runs, they go at a reboot",
            program=program,
            chains=", ".join(sorted(chains)),
        )
    if cleanup.removed or _NFACCT_MODULE.exists():
        with cleanup.step():
            for name in delete_counters(COUNTERS):
                cleanup.note(f"nfacct counter {name}")


def _remove_own(cleanup: Cleanup, family: Family, backend: RuleKind, kubelets: _Kubelets) -> None:
    """Remove the chains of kube-proxy; no program is run where there are none."""
    program = f"{PROGRAM[family]}-{backend.value}"
    chains = tuple((nft_chains if backend is RuleKind.NFT else legacy_chains)(family))
    if any(is_own_chain(*chain) for chain in chains):
        for removal in chain_removals(_saved(family, backend)):
            _keep(kubelets, program, removal.table, removal.kubelets)
            _remove_chains(cleanup, family, backend, removal)
    else:
        for table, name in chains:
            if is_kubelets_chain(table, name):
                _keep(kubelets, program, table, [name])


def _keep(kubelets: _Kubelets, program: str, table: str, names: Iterable[str]) -> None:
    for name in names:
        kubelets[program].append(f"{table} {name}")


def _saved(family: Family, backend: RuleKind) -> str:
    """The output of `iptables-save`."""
    program = f"{PROGRAM[family]}-{backend.value}"
    stays = f"what kube-proxy left in the tables of {program} stays"
    save = find_iptables(f"{PROGRAM[family]}-save", backend)
    if save is None or find_iptables(f"{PROGRAM[family]}-restore", backend) is None:
        raise KernelError(
            f"{stays}: there is no {program}-save and -restore to remove it with: install iptables"
        )
    try:
        return run([save])
    except ToolFailed as error:
        raise KernelError(f"{stays}: {error}; it needs {_NEEDS[backend]}") from error


def _remove_chains(cleanup: Cleanup, family: Family, backend: RuleKind, removal: Removal) -> None:
    program = f"{PROGRAM[family]}-{backend.value}"
    restore = find_iptables(f"{PROGRAM[family]}-restore", backend) or program
    for kept in removal.kept:
        klog.warning(
            "Chain stays, because rules of others jump to it",
            program=program,
            table=removal.table,
            chain=kept.chain,
            rules="; ".join(kept.rules[:_SHOWN]),
        )
    with cleanup.step():
        if removal.text:
            _restore(restore, removal.text)  # nothing is in force any more
            deleted = _delete_chains(cleanup, removal, restore)
            cleanup.note(f"{deleted} chains of {program}, table {removal.table}")


def _delete_chains(cleanup: Cleanup, removal: Removal, restore: str) -> int:
    """Delete empty chains, one by one where that fails for all together; how many."""
    failures = len(cleanup.failed)
    try:
        _restore(restore, deletion(removal.table, removal.chains))
    except ToolFailed:
        for chain in removal.chains:
            with cleanup.step():
                _restore(restore, deletion(removal.table, [chain]))
    return len(removal.chains) - (len(cleanup.failed) - failures)


def _restore(program: str, text: str) -> None:
    run([program, "-w", _LOCK_SECONDS, "--noflush"], text)
