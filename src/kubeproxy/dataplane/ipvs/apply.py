"""Makes the sets, rules, virtual servers and addresses of ipvs mode those of the update.

A sync that knows what the kernel has writes the difference of what is wanted: a changed endpoint
is a netlink message or two. A full one reads the kernel first. What is needed is written from the
back to the front, members of sets first and addresses last, and what is not needed any more is
removed from the front to the back, so that no packet meets half of a service.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import contains
from kubeproxy.dataplane.contract import ConnectionCounts, Lost, SyncReport, Update
from kubeproxy.dataplane.ipvs import rules, sets
from kubeproxy.dataplane.ipvs.names import IpSet, set_name
from kubeproxy.dataplane.ipvs.plan import Member, Part, Server, counts, setup_of
from kubeproxy.dataplane.ipvs.settings import DEVICE, IpvsSettings
from kubeproxy.dataplane.ipvs.state import DesiredState, StateChange, state_of, update_state
from kubeproxy.dataplane.ipvs.steps import (
    FoundServer,
    Steps,
    as_written,
    drained,
    listed_weights,
    steps,
)
from kubeproxy.dataplane.ipvs.work import (
    Failures,
    Repair,
    Work,
    failed_service_ports,
    is_fine,
    write_alone,
)
from kubeproxy.dataplane.unfit import unfit
from kubeproxy.dataplane.xtables_guard import ChainGuard
from kubeproxy.dataplane.xtables_sync import FitSync
from kubeproxy.dataplane.xtables_text import RESTORE_FAILURES, RuleTables, tables_in
from kubeproxy.linux import ipset, links
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.links import watch_device
from kubeproxy.linux.netlink.ipvs import (
    Command,
    DeleteServer,
    RealKey,
    ServerKey,
    VirtualServer,
)
from kubeproxy.linux.netlink.route import AddressChange
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.xtables import Xtables
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView

_REFUSALS = 5
_NONE: frozenset[RealKey] = frozenset()


class IpvsDataplane:
    """One family of ipvs mode."""

    def __init__(self, settings: IpvsSettings, servers: Ipvs, programs: Xtables) -> None:
        self._family = programs.family
        self._settings = settings
        self._servers = servers
        self._programs = programs
        self._guard = ChainGuard(programs)
        self._state: DesiredState | None = None
        self._table = Table(self._family)
        self._rules = ""
        self._draining: dict[ServerKey, frozenset[RealKey]] = {}
        self._unsure: frozenset[ServicePortName] = frozenset()
        self._is_first = True
        self._fit_sync = FitSync(self._attempt, self._at_fault)
        self._turn = asyncio.Lock()

    async def apply(self, update: Update) -> SyncReport:
        """Make the kernel as the update says; in a thread, because programs take their time."""
        async with self._turn:
            return await asyncio.to_thread(self._sync, update)

    def connections(self) -> ConnectionCounts | None:
        """What was counted so far, for threads; None while a sync is under way."""
        state = self._state
        if state is None:
            return None
        with Ipvs() as servers:
            connections = servers.connections()
        entries = tuple(self._table.entries.values())
        return ConnectionCounts(0, counts(entries, state.setup, connections))

    def written(self, table: Table, names: Sequence[ServicePortName]) -> str:  # noqa: ARG002  # ours is newer
        """What these service ports have in the kernel, as `ipset` and `ipvsadm` list it."""
        from kubeproxy.dataplane.ipvs.render import (  # noqa: PLC0415  # when asked for
            describe_some,
        )

        parts = {} if self._state is None else self._state.parts
        return describe_some([parts[name] for name in names if name in parts], self._family)

    def survey(self, table: Table, node: NodeView) -> Repair:
        """What a full sync would do, were it not the first; nothing is written."""
        state = state_of(table, setup_of(node, self._settings.scheduler))
        return self._repair(state, self._wanted_rules(state, node), resets=False)

    async def watch(self, lost: Lost) -> None:
        """Check draining real servers, and call `lost` when others change what is written.

        The kernel sends messages about addresses, and about rules where the programs write
        nftables; none about sets and virtual servers. Frequent full syncs check those.
        """
        async with asyncio.TaskGroup() as tasks:
            following = self._guard.follow(lost, self._settings.drain_period)
            tasks.create_task(following, name="guard")
            changes: asyncio.Queue[AddressChange | None] = asyncio.Queue()
            watching = watch_device(DEVICE, self._family, changes.put_nowait)
            tasks.create_task(watching, name="device")
            tasks.create_task(self._judge(changes, lost), name="addresses")
            await self._check_draining()

    async def _judge(self, changes: asyncio.Queue[AddressChange | None], lost: Lost) -> None:
        """Call `lost` when an address went that is wanted, or one came that is not."""
        while True:
            received = [await changes.get()]
            async with self._turn:  # what a sync does itself is what is wanted at its end
                while not changes.empty():
                    received.append(changes.get_nowait())
                if any(map(self._is_unwanted, received)):
                    lost(None)

    def _is_unwanted(self, change: AddressChange | None) -> bool:
        if self._state is None:  # the next sync is full
            return False
        wanted = self._state.members[IpSet.IPVS_IPS]
        return change is None or change.is_there != (change.address in wanted)

    async def _check_draining(self) -> None:
        while True:
            await asyncio.sleep(self._settings.drain_period)
            try:
                async with self._turn:
                    await asyncio.to_thread(self._check_drained)
            except KernelError as error:
                klog.error("Cannot check draining real servers", err=error)

    def figures(self) -> dict[str, int]:
        """The values of metrics, by their names."""
        return {RESTORE_FAILURES.name: self._programs.restore_failures}

    async def close(self) -> None:
        """Give the socket back."""
        self._servers.close()

    def _sync(self, update: Update) -> SyncReport:
        if update.full and self._fit_sync.left_out:
            self._state = None  # they are tried again with all others
        return self._fit_sync.run(update, knows_kernel=self._state is not None)

    def _at_fault(self, update: Update, error: Exception) -> dict[ServicePortName, str]:
        """The service ports that cannot be written, with the reason."""
        if isinstance(error, KernelError):
            return {}
        setup = setup_of(update.node, self._settings.scheduler)
        return unfit(update.table.entries.values(), partial(write_alone, setup))

    def _attempt(self, update: Update) -> SyncReport:
        state, self._state = self._state, None  # not known any more, should anything fail
        setup = setup_of(update.node, self._settings.scheduler)
        full = update.full or state is None
        if state is None:
            state, change = state_of(update.table, setup), StateChange()
        else:
            change = update_state(state, update.table, update.changes, setup)
        wanted = self._wanted_rules(state, update.node)
        if full:
            links.ensure_dummy(DEVICE)
            work = self._repair(state, wanted, resets=self._is_first).work
        else:
            work = self._carry_on(state, change, wanted)
        failed = failed_service_ports(self._write(work), state)
        self._is_first = False
        self._state, self._rules = state, rules.restore_text(wanted)
        self._table = update.table
        self._unsure = frozenset(failed)
        return SyncReport(failed, work.size)

    def _wanted_rules(self, state: DesiredState, node: NodeView) -> RuleTables:
        return rules.tables(node, self._settings.masquerade_bit, state.filled(), state.denials())

    def _carry_on(self, state: DesiredState, change: StateChange, wanted: RuleTables) -> Work:
        """The work that a change makes, and that of service ports which were refused."""
        servers: dict[ServerKey, Steps] = {}
        gone: list[ServerKey] = []
        for key, before, after in change.servers:
            if after is None:
                gone.append(key)
            else:
                waiting = self._draining.get(key, _NONE)
                found = None if before is None else as_written(before, waiting)
                servers[key] = steps(key, after, found, waiting)
        again = self._refused_parts(state)
        for key in (key for part in again for key in part.server_keys()):
            server = state.server(key)
            if server is not None:
                servers[key] = self._steps(key, server, self._servers.find(key), resets=True)
        added = dict.fromkeys((*change.added, *(m for part in again for m in part.members)))
        text = rules.restore_text(wanted)
        return Work(
            added=tuple(added),
            removed=change.removed,
            rules=text if text != self._rules else "",
            servers=servers,
            gone=self._deletable(gone),
            bound=_addresses(added),
            unbound=_addresses(change.removed),
        )

    def _refused_parts(self, state: DesiredState) -> list[Part]:
        """What was refused in the last sync; the first sync may not have set its weights."""
        return [state.parts[name] for name in self._unsure if name in state.parts]

    def _repair(self, state: DesiredState, wanted: RuleTables, *, resets: bool) -> Repair:
        """The work that makes the kernel, whatever it has, what is wanted."""
        names = [set_name(set_, self._family) for set_ in IpSet]
        with decoding("cannot read what ipset lists"):
            found_sets = sets.listed_sets(ipset.save(names), self._family)
        created = sets.creation(found_sets, self._family)
        added, removed = sets.member_changes(found_sets, state.members)
        found = tables_in("".join(map(self._programs.save, wanted)))
        jumps = rules.missing_jumps(found)
        are_there = not jumps and all(
            chains.items() <= found[table].items() for table, chains in wanted.items()
        )
        bound = dict.fromkeys(links.device_addresses(DEVICE, self._family))
        addresses = state.members[IpSet.IPVS_IPS]
        found_servers = self._servers.servers(self._family)
        every = state.servers()
        with decoding("cannot read the kernel's list of virtual servers"):
            weights = listed_weights(self._servers.listing(), self._family)
        refused = {key for part in self._refused_parts(state) for key in part.server_keys()}
        servers = {}
        for key, server in every.items():
            virtual = found_servers.get(key)
            there = FoundServer(virtual, weights.get(key, {})) if virtual else None
            resets_this = resets or key in refused
            # The list is quick and not precise: what seems to need something is asked for.
            waiting = self._draining.get(key, _NONE)
            if steps(key, server, there, waiting, resets=resets_this):
                servers[key] = self._steps(key, server, virtual, resets=resets_this)
        work = Work(
            created_sets=created,
            added=added,
            removed=removed,
            rules="" if are_there else rules.restore_text(wanted, jumps),
            servers={key: each for key, each in servers.items() if each},
            gone=self._deletable(found_servers.keys() - every.keys()),
            bound=tuple(address for address in addresses if address not in bound),
            unbound=tuple(address for address in bound if address not in addresses),
        )
        return Repair(work, state, wanted, found)

    def _steps(
        self, key: ServerKey, server: Server, virtual: VirtualServer | None, *, resets: bool
    ) -> Steps:
        """How to make a virtual server the wanted one, after reading its real servers."""
        found = None
        if virtual is not None:
            reals = self._servers.reals(key)
            found = FoundServer(virtual, {real: each.weight for real, each in reals.items()})
        return steps(key, server, found, self._draining.get(key, _NONE), resets=resets)

    def _deletable(self, keys: Iterable[ServerKey]) -> tuple[ServerKey, ...]:
        excluded = self._settings.excluded
        return tuple(
            key for key in keys if not any(contains(range_, key.address) for range_ in excluded)
        )

    def _write(self, work: Work) -> Failures:
        failures: Failures = {}
        if work.created_sets:
            ipset.restore(work.created_sets)
        self._add_members(work.added, failures)
        refusal: KernelError | None = None
        if work.rules:
            try:
                self._programs.restore(work.rules)
            except KernelError as error:
                refusal = error  # what serves comes before what guards; nothing is removed then
        self._write_servers(work.servers, failures)
        for address, unbound in links.change_addresses(DEVICE, work.bound, ()).items():
            failures[IpSet.IPVS_IPS, address] = str(unbound)
        if refusal is not None:
            raise refusal
        self._remove(work)
        return failures

    def _add_members(self, members: tuple[Member, ...], failures: Failures) -> None:
        """Add members; when a set refuses one, the others get theirs.

        Each refusal is a run of the program: a set that refuses a few is taken to be full.
        """
        refusals: Counter[IpSet] = Counter()
        while members:
            try:
                ipset.restore(sets.member_lines("add", members, self._family))
            except ipset.IpsetFailed as error:
                if not error.line:
                    raise
                refused, *rest = members[error.line - 1 :]
                refusals[refused[0]] += 1
                is_full = refusals[refused[0]] == _REFUSALS
                lost = [m for m in rest if is_full and m[0] is refused[0]]
                failures.update(dict.fromkeys((refused, *lost), str(error)))
                members = tuple(m for m in rest if m not in failures)
            else:
                return

    def _write_servers(self, servers: Mapping[ServerKey, Steps], failures: Failures) -> None:
        refused = self._run([command for each in servers.values() for command in each.commands])
        for key, each in servers.items():
            waiting = each.waiting
            if each.leaving:
                leaving = (*waiting, *each.leaving)
                commands, waiting = drained(key, leaving, self._servers.reals(key))
                refused |= self._run(commands)
            self._drain(key, waiting)
        failures.update({command.key: str(error) for command, error in refused.items()})

    def _run(self, commands: Sequence[Command]) -> dict[Command, Refused]:
        """Have commands carried out; those that failed, with the reason."""
        refused = self._servers.run(commands)
        return {each: error for each, error in refused.items() if not is_fine(each, error.errno)}

    def _drain(self, key: ServerKey, reals: frozenset[RealKey]) -> None:
        """These real servers of a virtual server wait for their last connections now."""
        if reals:
            self._draining[key] = reals
        else:
            self._draining.pop(key, None)

    def _remove(self, work: Work) -> None:
        """Remove stale objects. The next full sync tries again what cannot be removed."""
        errors = list(links.change_addresses(DEVICE, (), work.unbound).values())
        errors += self._run([DeleteServer(key) for key in work.gone]).values()
        for key in work.gone:
            self._drain(key, _NONE)
        if work.removed:
            ipset.restore(sets.member_lines("del", work.removed, self._family))
        for error in errors:
            klog.error("Could not remove stale objects", err=error)

    def _check_drained(self) -> None:
        """Remove draining real servers that have no connections left."""
        for key, reals in tuple(self._draining.items()):
            commands, waiting = drained(key, reals, self._servers.reals(key))
            refused = self._run(commands)
            for error in refused.values():
                klog.error("Real server cannot be removed, will try again", err=error)
            self._drain(key, waiting | {each.real for each in commands if each in refused})


def _addresses(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(member for set_, member in members if set_ is IpSet.IPVS_IPS)
