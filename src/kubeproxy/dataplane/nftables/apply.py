"""Makes the kernel's table that of the update, in one transaction a sync.

A partial update is the difference that the update names. A full one reads the kernel and writes
only what differs: a restart with nothing changed writes nothing. A table that is not our program
(upstream's, an older one of ours, one that was changed) is replaced as a whole in the same
transaction that fills the new one.

What takes time is done in a thread: full syncs, and changes of many elements. Only the
family's own sync changes what they read, and what others look at changes in the event loop.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, join
from kubeproxy.dataplane.contract import ConnectionCounts, Lost, SyncReport, Update
from kubeproxy.dataplane.failures import Failure
from kubeproxy.dataplane.nftables import metrics
from kubeproxy.dataplane.nftables.batch import (
    batch_messages,
    chain_deletions,
    pieces,
    program_messages,
)
from kubeproxy.dataplane.nftables.counters import read
from kubeproxy.dataplane.nftables.culprits import Culprit, culprits
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.evidence import Evidence
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.fastpath.path import FastPath
from kubeproxy.dataplane.nftables.guard import Moment, TableGuard
from kubeproxy.dataplane.nftables.idle import forget_chains, too_many_idle
from kubeproxy.dataplane.nftables.inspect import Found, look
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.localhost import Address, Listener, choose, listeners
from kubeproxy.dataplane.nftables.pins import Pins
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.state import (
    NONE_KNOWN,
    Programmed,
    Step,
    alone,
    commit,
    reconcile,
    step,
)
from kubeproxy.dataplane.nftables.transactions import log_transaction
from kubeproxy.dataplane.unfit import unfit, without
from kubeproxy.linux.localproxy import LocalProxy
from kubeproxy.linux.netlink.message import WHOLE_BATCH
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import GenerationChanged, Nfnetlink
from kubeproxy.table.diff import Changes, ListChanges
from kubeproxy.table.entries import Entry, ServicePortName, Table
from kubeproxy.table.node import NodeView

_ATTEMPTS = 5
_CULPRITS = 20
_REFUSALS = 2
_PIECE = 2 << 20
_LARGE = 256 << 10
MANY = 5000
"""So many elements are encoded in some milliseconds."""

T = TypeVar("T")


class Nftables:
    """One family of nftables mode."""

    def __init__(
        self,
        family: Family,
        settings: NftablesSettings,
        kernel: Nfnetlink,
        guard: TableGuard,
        fast_path: FastPath | None = None,
    ) -> None:
        self._family = family
        self.fast_path = fast_path
        self._settings = settings
        self._kernel = kernel
        self._guard = guard
        self._state: Programmed | None = None
        self._has_programmed = False
        self.pins = Pins(guard, lambda: self._state)
        self._evidence = Evidence(family, self._program_in_force)
        self._proxy = LocalProxy(choose)
        self._listeners: dict[Address, Listener] = {}
        self._last_number = 0
        self._commit_failures = 0
        self._cleanup_failures = 0

    async def watch(self, lost: Lost) -> None:
        """Call `lost` whenever others change our table, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pins.run())
            await self._guard.follow(NFPROTO[self._family], self._kernel.port_id, lost)

    async def failures(self, notify: Callable[[Sequence[Failure]], None]) -> None:
        """Call `notify` with the connections that endpoints fail, until cancelled."""
        await self._evidence.follow(notify)

    def _program_in_force(self) -> Program | None:
        return None if self._state is None else self._state.program

    async def close(self) -> None:
        """Close the listeners and the socket; the table stays."""
        await self._proxy.close()
        self.pins.close()
        self._kernel.close()

    def figures(self) -> dict[str, int]:
        """The values of metrics, by their names."""
        return {
            metrics.SYNC_FAILURES.name: self._commit_failures,
            metrics.CLEANUP_FAILURES.name: self._cleanup_failures,
            metrics.LISTENERS.name: self._proxy.listeners,
            metrics.LISTENER_FAILURES.name: self._proxy.bind_failures,
        }

    def connections(self) -> ConnectionCounts | None:
        """What was counted so far, for threads; None while a full sync is under way."""
        state = self._state
        if state is None:
            return None
        placed = tuple(state.placed.values())
        return read(state.program, placed, endpoints=self._settings.endpoint_counters)

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:  # noqa: ARG002  # ours is newer
        """What these service ports have in the kernel's table, as commands for `nft`."""
        from kubeproxy.dataplane.nftables.describe import (  # noqa: PLC0415  # when asked for
            describe_some,
        )

        state = self._state
        if state is None:
            return ""
        placed = [state.placed[name] for name in names if name in state.placed]
        return describe_some(state.program, placed, state.node, state.numbers)

    async def apply(self, update: Update) -> SyncReport:
        """Make the kernel as the update says."""
        report = await self._program(update)
        await self._listen(update)
        return report

    async def _program(self, update: Update) -> SyncReport:
        state = self._state
        if state is not None and not update.full and self._fits(state, update):
            try:
                return await self._partial(state, update)
            except Refused:
                pass  # the kernel is not as we remember it: read it
        self._state = None
        heals = any(entry.healing for entry in self._doable(update.table.entries.values()))
        wanted = program(update.node, self._settings, heals=heals)
        try:
            return await self._full(wanted, update)
        except KernelError:
            raise
        except Exception:
            entries = update.table.entries.values()
            left_out = await asyncio.to_thread(unfit, entries, alone(wanted, update.node))
            if not left_out:
                raise
        fit = msgspec.structs.replace(update, table=without(update.table, left_out))
        report = await self._full(wanted, fit)
        return msgspec.structs.replace(report, failed={**left_out, **report.failed})

    def _fits(self, state: Programmed, update: Update) -> bool:
        """Whether the program that the kernel has does what the update needs."""
        changes = update.changes
        wanted = chain(changes.added, (after for _, after in changes.changed), update.again)
        needs = any(entry.healing for entry in self._doable(wanted))
        heals = bool(state.program.timeouts) or not needs
        return heals and _only_moved(state.node, update.node)

    def _doable(self, entries: Iterable[Entry]) -> Iterable[Entry]:
        """The entries as this kernel can have them."""
        if self._settings.can_heal:
            return entries
        nothing = {"healing": Healing.NONE, "pods": ()}
        return (
            msgspec.structs.replace(each, **nothing) if each.healing else each for each in entries
        )

    async def _partial(self, state: Programmed, update: Update) -> SyncReport:
        changes = update.changes
        gone = [*changes.removed, *(before for before, _ in changes.changed)]
        wanted = [*changes.added, *(after for _, after in changes.changed), *update.again]
        many = _elements(changes) + sum(map(_all_elements, update.again)) > MANY
        doable = list(self._doable(wanted))
        writing = partial(write, state, gone, doable, update.node, changes.lists)
        next_, messages, left_out = await _in_time(writing, many=many)
        log_transaction(state.program, next_.batch, intact=True)
        await self._commit(messages)
        commit(state, next_, update.node)  # here, because others look at it
        report = self._done(state, next_)
        await self._prune(state, too_many_idle(state))
        return msgspec.structs.replace(report, failed=left_out)

    async def _full(self, wanted: Program, update: Update) -> SyncReport:
        """Read and compare, leaving out one service port after the other that is refused.

        A difference that is refused twice, for no service's fault, will be refused for ever: then
        the table is replaced as a whole.
        """
        failed: dict[ServicePortName, str] = {}
        suspects: set[frozenset[ServicePortName]] = set()
        attempts = found = refusals = 0
        while True:
            replace = refusals == _REFUSALS
            try:
                report = await self._reconcile(wanted, update, failed, replace=replace)
            except GenerationChanged:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise
            except Culprit as culprit:
                if culprit.names not in suspects:
                    suspects.add(culprit.names)  # what was read may have been wrong: read again
                    continue
                failed |= dict.fromkeys(culprit.names, str(culprit))
                found += 1
                if found > _CULPRITS:
                    raise
            except Refused as error:
                if replace or error.errors[0].index == WHOLE_BATCH:
                    raise
                refusals += 1
                self._log_refusal(error, refusals)
            else:
                return msgspec.structs.replace(report, failed=failed)

    def _log_refusal(self, error: Refused, refusals: int) -> None:
        family = self._family.value
        if refusals < _REFUSALS:
            klog.info("Changes of rules refused, reading them again", err=error, ipFamily=family)
        else:
            klog.error(
                "Changes of rules refused again, replacing the whole table; "
                "connection counters and affinity of clients are reset",
                err=error,
                ipFamily=family,
            )

    async def _reconcile(
        self,
        wanted: Program,
        update: Update,
        failed: dict[ServicePortName, str],
        *,
        replace: bool,
    ) -> SyncReport:
        fit = (each for name, each in update.table.entries.items() if name not in failed)
        entries = list(self._doable(fit))
        since: Moment | None = await self._guard.moment(self._kernel)
        survey = partial(self._survey, wanted, entries, update.node, replace=replace)
        state, next_, transactions = await asyncio.to_thread(survey)
        for piece in transactions:
            try:
                await self._commit(piece, since)
            except Refused as error:
                names = await asyncio.to_thread(culprits, error, piece, next_, update.node)
                if not names:
                    raise
                raise Culprit(names, error) from error
            since = None
        await asyncio.to_thread(commit, state, next_, update.node)
        report = self._done(state, next_)
        if self._has_programmed:  # chains of unused choices do no harm: a restart leaves them
            await self._prune(state, next_.idle)
        self._state = state
        self._has_programmed = True
        if wanted.timeouts:
            self._evidence.begin()
        return report

    def _survey(
        self, wanted: Program, entries: Sequence[Entry], node: NodeView, *, replace: bool
    ) -> tuple[Programmed, Step, list[list[bytes]]]:
        """Read the kernel: its state, the step to what it should be, and the transactions."""
        found, state = look(self._kernel, wanted, entries, node, replace=replace)
        if found.intact:  # else there are no pins that could have a number of before
            state.last_number = self._last_number
        next_ = reconcile(state, entries, found.elements, node)
        log_transaction(wanted, next_.batch, intact=found.intact, replaces=found.exists)
        return state, next_, self._pieces(wanted, found, next_)

    async def _prune(self, state: Programmed, unused: Collection[str]) -> None:
        """Remove chains that nothing leads to; kernels before 6.2 may accept that only later."""
        if not unused:
            return
        try:
            await self._send(chain_deletions(state.program, sorted(unused), state.numbers))
        except Refused as error:
            self._cleanup_failures += 1
            klog.info("Unused chains stay for now", v=2, err=error)
        else:
            forget_chains(state, unused)

    def _pieces(self, wanted: Program, found: Found, next_: Step) -> list[list[bytes]]:
        """The transactions: one, unless the kernel has no table of ours that could break."""
        messages = batch_messages(wanted, next_.batch)
        if found.intact:
            return pieces([*found.switch, *messages], self._kernel.max_batch)
        messages = [*program_messages(wanted), *messages]
        if found.exists:
            messages.insert(0, delete_table(wanted.family, wanted.table))
            return pieces(messages, self._kernel.max_batch)
        return pieces(messages, min(_PIECE, self._kernel.max_batch))

    async def _commit(self, messages: Sequence[bytes], since: Moment | None = None) -> None:
        """Send what packets depend on."""
        try:
            await self._send(messages, since)
        except Refused:
            self._commit_failures += 1
            raise

    async def _send(self, messages: Sequence[bytes], since: Moment | None = None) -> None:
        """Commit; a large transaction must not hold up the event loop."""
        guard = self._guard
        if not messages:
            return
        # What was read before others had their turn counts only while no thread of ours commits.
        if since is None and sum(map(len, messages)) <= _LARGE:
            self._kernel.commit(messages)
            guard.committed()
            return
        async with guard.paused(self._kernel):
            await asyncio.to_thread(self._kernel.commit, messages, guard.expected(since))
            guard.committed()

    async def _listen(self, update: Update) -> None:
        """Have the listeners for node ports of the loopback address, where they are wanted."""
        table, node = update.table, update.node
        if not node.serves_loopback_by_proxy() and not self._listeners:
            return
        if update.full:
            self._listeners = listeners({}, table.entries.values(), table, node)
        else:
            changes = update.changes
            touched = chain(changes.removed, changes.added, *changes.changed)
            self._listeners = listeners(self._listeners, touched, table, node)
        failures = await self._proxy.update(self._listeners)
        for (address, port), reason in failures.items():
            klog.error(
                "Node port cannot be served on the loopback address, will try again",
                err=reason,
                address=join(address, port),
            )

    def _done(self, state: Programmed, next_: Step) -> SyncReport:
        self._last_number = state.last_number
        if next_.lost_numbers:
            self.pins.forget()
        if next_.departure.left and self.fast_path is not None:
            self.fast_path.release()
        return SyncReport(written=next_.batch.count)


def write(
    state: Programmed,
    gone: Sequence[Entry],
    wanted: Sequence[Entry],
    node: NodeView,
    lists: Mapping[ServicePortName, ListChanges] = NONE_KNOWN,
) -> tuple[Step, list[bytes], dict[ServicePortName, str]]:
    """The step, its messages, and the service ports that cannot be encoded, with why."""
    left_out: dict[ServicePortName, str] = {}
    try:
        next_ = step(state, gone, wanted, node, lists)
    except Exception:
        left_out = unfit(wanted, alone(state.program, node))
        if not left_out:
            raise
        next_ = step(state, gone, [each for each in wanted if each.name not in left_out], node)
    return next_, batch_messages(state.program, next_.batch), left_out


def _elements(changes: Changes) -> int:
    """About how many elements are looked at: of lists whose difference is known, that alone."""
    count = sum(map(_all_elements, chain(changes.added, changes.removed)))
    for before, after in changes.changed:
        known = changes.lists.get(after.name)
        if known is None:
            count += _all_elements(before) + _all_elements(after)
        else:
            count += len(after.frontends) * sum(len(one.left) + len(one.came) for one in known)
    return count


def _all_elements(entry: Entry) -> int:
    """About how many elements an entry has: each frontend has a list of the backends."""
    return len(entry.frontends) * (1 + len(entry.cluster) + len(entry.local))


async def _in_time(work: Callable[[], T], *, many: bool) -> T:
    """Do the work: at once, or in a thread, so that it does not hold up the event loop."""
    return await asyncio.to_thread(work) if many else work()


def _only_moved(before: NodeView, after: NodeView) -> bool:
    """Whether a node has other addresses, service ranges or another zone, and is else as it was.

    The first two are elements, and the zone is in the entries that changed with it. On all else
    depend rules, and elements of entries that did not change.
    """
    moved = {name: getattr(after, name) for name in ("addresses", "service_cidrs", "zone")}
    return msgspec.structs.replace(before, **moved) == after
