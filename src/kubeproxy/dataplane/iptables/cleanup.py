"""Removes the chains of kube-proxy, those of ipvs mode too, and the nfacct counters."""

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
from kubeproxy.dataplane.xtables_guard import nft_chains
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


def clean_up(cleanup: Cleanup) -> None:
    """Remove the chains of both kinds of iptables, then the counters that rules count with."""
    for family in Family:
        for backend in RuleKind:
            if backend is RuleKind.LEGACY or cleanup.has_nf_tables:
                with cleanup.step():
                    _remove_own(cleanup, family, backend)
    if cleanup.removed or _NFACCT_MODULE.exists():
        with cleanup.step():
            for name in delete_counters(COUNTERS):
                cleanup.note(f"nfacct counter {name}")


def _remove_own(cleanup: Cleanup, family: Family, backend: RuleKind) -> None:
    """Remove the chains of kube-proxy; no program is run where there are none."""
    program = f"{PROGRAM[family]}-{backend.value}"
    chains = (nft_chains if backend is RuleKind.NFT else legacy_chains)(family)
    kubelets = [f"{table} {name}" for table, name in chains if is_kubelets_chain(table, name)]
    restore = ""
    removals: tuple[Removal, ...] = ()
    if any(is_own_chain(*chain) for chain in chains):
        saved, restore = _saved(program, family, backend)
        removals = chain_removals(saved)
        kubelets = [f"{each.table} {name}" for each in removals for name in each.kubelets]
    if kubelets:
        cleanup.keep(
            "Chains stay: they are the kubelet's. Where no kubelet runs, they go at a reboot",
            program=program,
            chains=", ".join(sorted(kubelets)),
        )
    for removal in removals:
        for chain, rules in removal.kept.items():
            klog.warning(
                "Chain stays, because rules of others jump to it",
                program=program,
                table=removal.table,
                chain=chain,
                rules="; ".join(rules[:_SHOWN]),
            )
        with cleanup.step():
            if removal.text:
                _restore(restore, removal.text)  # nothing is in force any more
                deleted = _delete_chains(cleanup, removal, restore)
                cleanup.note(f"{deleted} chains of {program}, table {removal.table}")


def _saved(program: str, family: Family, backend: RuleKind) -> tuple[str, str]:
    """The output of `iptables-save`, and where `iptables-restore` is."""
    stays = f"what kube-proxy left in the tables of {program} stays"
    save = find_iptables(f"{PROGRAM[family]}-save", backend)
    restore = find_iptables(f"{PROGRAM[family]}-restore", backend)
    if save is None or restore is None:
        raise KernelError(
            f"{stays}: there is no {program}-save and -restore to remove it with: install iptables"
        )
    try:
        return run([save]), restore
    except ToolFailed as error:
        raise KernelError(f"{stays}: {error}; it needs {_NEEDS[backend]}") from error


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
