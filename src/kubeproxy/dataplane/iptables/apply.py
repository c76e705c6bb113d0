"""Makes the kernel's rules those of the update, with one `iptables-restore` a sync.

A partial sync writes the top-level rules of all services and the chains of those that changed; a
full one also ensures the jumps from the built-in chains, and deletes unused chains.
Each table is replaced as a whole or not at all, so a sync that fails leaves the rules of before.
"""

import asyncio
from collections.abc import Collection, Sequence

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.contract import Lost, Rules, SyncReport, Update
from kubeproxy.dataplane.iptables.canaries import watch_canaries
from kubeproxy.dataplane.iptables.describe import describe_some, owners, rules_of
from kubeproxy.dataplane.iptables.difference import changes
from kubeproxy.dataplane.iptables.metrics import PARTIAL_RESTORE_FAILURES
from kubeproxy.dataplane.iptables.render import JUMPS, NO_SERVICES, restore_text
from kubeproxy.dataplane.iptables.setup import (
    BE_LIBERAL,
    COUNTERS,
    ROUTE_LOCALNET,
    Options,
    serves_localhost,
    setup_of,
)
from kubeproxy.dataplane.iptables.state import Kept, difference, everything, rules_in
from kubeproxy.dataplane.unfit import unfit
from kubeproxy.dataplane.xtables_guard import ChainGuard
from kubeproxy.dataplane.xtables_sync import FitSync
from kubeproxy.dataplane.xtables_text import RESTORE_FAILURES, tables_in
from kubeproxy.linux.nfacct import ensure_counters
from kubeproxy.linux.sysctl import ensure_sysctl, read_sysctl
from kubeproxy.linux.xtables import Xtables, XtablesFailed
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView


class IptablesSettings(msgspec.Struct, frozen=True):
    """How the operator set iptables mode up; the period is how often the canaries are checked."""

    masquerade_bit: int = 14
    monitor_period: float = 30.0


class Iptables:
    """One family of iptables mode."""

    def __init__(self, settings: IptablesSettings, programs: Xtables) -> None:
        self._settings = settings
        self._programs = programs
        self._guard = ChainGuard(programs)
        self._options: Options | None = None
        self._kept: Kept | None = None
        self._top_level = ""
        self._routes_localnet = False
        self._partial_failures = 0
        self._fit_sync = FitSync(self._attempt, self._at_fault)

    async def apply(self, update: Update) -> SyncReport:
        """Make the kernel as the update says; the programs take their time, in a thread."""
        knows_kernel = self._kept is not None
        return await asyncio.to_thread(self._fit_sync.run, update, knows_kernel=knows_kernel)

    async def close(self) -> None:
        """Nothing is held open."""

    def figures(self) -> dict[str, int]:
        """The values of metrics, by their names."""
        return {
            RESTORE_FAILURES.name: self._programs.restore_failures,
            PARTIAL_RESTORE_FAILURES.name: self._partial_failures,
        }

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:
        """The rules of these service ports, as `iptables-restore` was given them."""
        kept = self._kept
        return "" if kept is None else describe_some(table, names, kept.setup)

    def _at_fault(self, update: Update, error: Exception) -> dict[ServicePortName, str]:
        """The service ports whose rules are refused, or cannot be written, with the reason."""
        table = update.table
        options = self._options or Options(self._settings.masquerade_bit)
        setup = setup_of(update.node, options)
        if isinstance(error, XtablesFailed):
            return dict.fromkeys(owners(error.lines, table, setup), str(error))
        if isinstance(error, KernelError):
            return {}
        return unfit(table.entries.values(), lambda entry: rules_of([entry], table, setup))

    def _attempt(self, update: Update) -> SyncReport:
        kept, self._kept = self._kept, None  # not known any more, should anything fail
        options = self._options
        if kept is None or options is None or update.full:
            kept, options = None, self._prepare()
        setup = setup_of(update.node, options)
        everything_new = kept is None or kept.setup != setup
        if kept is None or everything_new:
            kept, written = everything(update.table, setup, self._saved())
        else:
            written = difference(kept, update.table, update.changes)
        top_level = restore_text(update.node, options, NO_SERVICES)
        report = SyncReport()
        # Addresses come and go with every pod: most of these changes do not affect the rules.
        if written.is_news or top_level != self._top_level:
            text = restore_text(update.node, options, written)
            self._write(text, written.deleted, partial=not everything_new)
            report = _report(text, kept.chain_rules - rules_in(written.chains))
        self._kept, self._options, self._top_level = kept, options, top_level
        self._route_localnet(update.node)
        return report

    def _prepare(self) -> Options:
        """Ensure what a restore does not write: jumps and counters."""
        for jump in JUMPS:
            self._programs.ensure_chain(jump.table, jump.target)
            self._programs.ensure_rule(jump.table, jump.chain, jump.words)
        # Read once: the rules of both families follow what holds when the proxy starts.
        drops_invalid = (
            self._options.drops_invalid if self._options else not read_sysctl(BE_LIBERAL)
        )
        return Options(self._settings.masquerade_bit, drops_invalid, self._counters())

    def _counters(self) -> frozenset[str]:
        try:
            failed = ensure_counters(COUNTERS)
        except KernelError as error:
            failed = dict.fromkeys(COUNTERS, str(error))
        for counter, reason in failed.items():
            klog.info("nfacct counter unavailable", v=2, counter=counter, err=reason)
        return frozenset(COUNTERS) - failed.keys()

    def _saved(self) -> str:
        """The nat table, for the chains in it that are not used any more."""
        try:
            return self._programs.save("nat")
        except KernelError as error:
            klog.error(
                "Could not list stale chains, they remain until the next full sync", err=error
            )
            return ""

    def _write(self, text: str, deleted: Collection[str], *, partial: bool) -> None:
        """Have the rules restored; the text deletes these chains at its end."""
        try:
            was_disturbed = self._guard.restore(text)
        except KernelError:
            self._partial_failures += partial
            raise
        if was_disturbed and self._differs(text, deleted):
            raise KernelError("others changed the rules while ours were being written")

    def _differs(self, text: str, deleted: Collection[str]) -> bool:
        """Whether the kernel has other rules than the text that was restored, or lacks a jump."""
        wanted = tables_in(text)
        for chain in deleted:
            del wanted["nat"][chain]
        found = tables_in("".join(map(self._programs.save, wanted)))
        return any(True for _ in changes(wanted, found, ()))

    def _route_localnet(self, node: NodeView) -> None:
        """Let packets from 127.0.0.1 out, once the rule that keeps others from there is in."""
        if self._routes_localnet or not serves_localhost(node):
            return
        try:
            if ensure_sysctl(ROUTE_LOCALNET, 1):
                klog.info(
                    "Serving node ports on 127.0.0.1; --iptables-localhost-nodeports=false and"
                    " --nodeport-addresses without it keep the sysctl as it was",
                    sysctl=ROUTE_LOCALNET,
                    value=1,
                )
        except KernelError as error:
            klog.error("Node ports cannot be served on 127.0.0.1, will try again", err=error)
        else:
            self._routes_localnet = True

    async def watch(self, lost: Lost) -> None:
        """Call `lost` when others change our chains, as far as that can be seen."""
        period = self._settings.monitor_period
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._guard.follow(lost, period), name="guard")
            tasks.create_task(watch_canaries(self._programs, lost, period), name="canaries")


def _report(text: str, not_written: int) -> SyncReport:
    """What a restore wrote, and how many rules of ours there are with those it left alone."""
    in_filter, _, in_nat = text.partition("*nat\n")
    filters, nats = in_filter.count("\n-A "), in_nat.count("\n-A ")
    rules = {"filter": Rules(filters, filters), "nat": Rules(nats + not_written, nats)}
    return SyncReport(written=text.count("\n"), rules=rules)
