"""Two sides -> what differs, a Service at a time.

Only service ports are probed that may differ: those that were compiled to something else, and
those whose verdicts depend on them. Where the mode or the node differ, that is all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.plan.notices import in_order, notices
from kubeproxy.plan.outcome import Effect
from kubeproxy.plan.probes import (
    View,
    Views,
    address_probes,
    entry_probes,
    unallocated_probes,
)
from kubeproxy.plan.side import Side
from kubeproxy.plan.wire import Change, Notice, ServicePlan
from kubeproxy.table.diff import diff
from kubeproxy.table.entries import (
    Backend,
    Entry,
    FrontendKey,
    FrontendKind,
    ServiceName,
    ServicePortName,
)
from kubeproxy.table.policy import Policy

Ports = Mapping[Family, Sequence[EntryChange]]
"""The ports of a Service that may differ."""


class Sides(msgspec.Struct, frozen=True):
    """Both sides, and what follows from them for every Service.

    `conflicts` are those that are new, by the Service that loses. `tallies` count what is written.
    """

    before: Side
    after: Side
    views: Mapping[Family, Views]
    conflicts: Mapping[ServiceName, Sequence[str]]
    tallies: Mapping[Family, Callable[[EntryChange], int]]


def sides(before: Side, after: Side) -> Sides:
    """Two sides, to be compared."""
    both = {
        family: (
            View(before.tables[family], before.nodes[family], before.mode.quirks),
            View(after.tables[family], after.nodes[family], after.mode.quirks),
        )
        for family in Family
    }
    tallies = {family: after.mode.tally(after.config, after.nodes[family]) for family in Family}
    return Sides(before, after, both, _conflicts(before, after), tallies)


def touched(both: Sides) -> Mapping[ServiceName, Ports]:
    """The service ports that may differ, by Service and family."""
    found: dict[ServiceName, dict[Family, list[EntryChange]]] = {}
    for family, (one, other) in both.views.items():
        for name in _touched_names((one, other)):
            of_service = found.setdefault(name.owner, {}).setdefault(family, [])
            entries = one.table.entries.get(name), other.table.entries.get(name)
            of_service.append(EntryChange(*entries))
    for key in (*both.before.left_out, *both.after.left_out):
        found.setdefault(ServiceName(key.namespace, key.name), {})
    for service in both.conflicts:
        found.setdefault(service, {})
    return dict(sorted(found.items()))


def _touched_names(both: Views) -> dict[ServicePortName, None]:
    """The service ports of a family that may differ."""
    one, other = both
    if (one.node, one.quirks) != (other.node, other.quirks):
        return dict.fromkeys((*one.table.entries, *other.table.entries))
    changes = diff(one.table, other.table)
    changed = [*changes.removed, *chain.from_iterable(changes.changed), *changes.added]
    names = dict.fromkeys(entry.name for entry in changed)
    for owner in changes.health_checks:
        names |= {
            name: None
            for table in (one.table, other.table)
            for name in table.entries
            if name.owner == owner
        }
    for entry in changed:
        names |= dict.fromkeys(_dependent(both, entry))
    return names


def _dependent(both: Views, entry: Entry) -> Iterator[ServicePortName]:
    """Other service ports whose verdicts depend on an entry: node ports and addresses meet."""
    for view in both:
        for frontend in entry.frontends:
            if frontend.kind is FrontendKind.NODE_PORT:
                keys = [
                    FrontendKey(address, entry.protocol, frontend.port)
                    for address in view.node.addresses
                ]
                if view.quirks.rewrites_by_set:
                    yield from _on_port(view, entry.protocol, frontend.port)
            else:
                keys = [FrontendKey("", entry.protocol, frontend.port)]
                if not view.node.is_own(frontend.address):
                    continue
            yield from (found.name for found in map(view.table.find, keys) if found)


def _on_port(view: View, protocol: Protocol, port: int) -> Iterator[ServicePortName]:
    """The service ports with a cluster IP on a port."""
    for name, entry in view.table.entries.items():
        if name.protocol is protocol and any(
            f.port == port and f.kind is FrontendKind.CLUSTER_IP for f in entry.frontends
        ):
            yield name


# --- a Service --------------------------------------------------------------------------------


def service_plan(both: Sides, service: ServiceName, ports: Ports) -> ServicePlan:
    """What the change does to a Service."""
    found = ServicePlan(service.namespace, service.service, _change(ports))
    said: list[Notice] = []
    objects = 0
    for family, changes in ports.items():
        view = both.views[family]
        for change in changes:
            said += notices(view, entry_probes(view, change, both.after.placeless))
            said += _of_entry(change, both)
            found = _with_lists(found, change)
            objects += both.tallies[family](_written(both, change))
        said += _health(view, service)
    key = ObjectKey(service.namespace, service.service)
    left_out = both.after.left_out.get(key, "")
    return replace(
        found,
        notices=tuple(in_order(_merged(said))),
        conflicts=tuple(both.conflicts.get(service, ())),
        left_out="" if both.before.left_out.get(key) == left_out else left_out,
        objects=objects,
    )


def _written(both: Sides, change: EntryChange) -> EntryChange:
    """What there is of a service port in the mode of after: nothing, where that is another."""
    same = both.before.mode.name == both.after.mode.name
    return change if same else EntryChange(None, change.after)


def _merged(said: list[Notice]) -> list[Notice]:
    """One notice for all that differ in their destinations alone."""
    found: dict[Notice, list[str]] = {}
    for each in said:
        found.setdefault(replace(each, at=()), []).extend(each.at)
    return [replace(each, at=tuple(dict.fromkeys(at))) for each, at in found.items()]


def _change(ports: Ports) -> Change:
    pairs = list(chain.from_iterable(ports.values()))
    if all(one == other for one, other in pairs):
        return Change.SAME
    if all(one is None for one, _ in pairs):
        return Change.ADDED
    return Change.REMOVED if all(other is None for _, other in pairs) else Change.CHANGED


def _with_lists(found: ServicePlan, pair: EntryChange) -> ServicePlan:
    """The Service with what appears and disappears of one of its ports."""
    one, other = pair
    keys = [frozenset(map(str, entry.keys()) if entry else ()) for entry in pair]
    ends = [frozenset(map(str, _endpoints(entry))) for entry in pair]
    return replace(
        found,
        frontends_added=_joined(found.frontends_added, keys[1] - keys[0]),
        frontends_removed=_joined(found.frontends_removed, keys[0] - keys[1]),
        endpoints_added=_joined(found.endpoints_added, ends[1] - ends[0]),
        endpoints_removed=_joined(found.endpoints_removed, ends[0] - ends[1]),
        policies=_joined(found.policies, _policies(one, other) if one and other else ()),
    )


def _joined(known: tuple[str, ...], more: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *sorted(more))))


def _endpoints(entry: Entry | None) -> frozenset[Backend]:
    """The endpoints of any list, wherever they are."""
    used = (*entry.cluster, *entry.local) if entry else ()
    return frozenset(Backend(each.address, each.port) for each in used)


def _policies(one: Entry, other: Entry) -> tuple[str, ...]:
    """The policies that change, in words."""
    ranges = [
        "all clients" if entry.source_ranges is None else " ".join(map(str, entry.source_ranges))
        for entry in (one, other)
    ]
    pairs = {
        "internal traffic policy": _scopes(one.internal, other.internal),
        "external traffic policy": _scopes(one.external, other.external),
        "session affinity": (f"{one.affinity_seconds} s", f"{other.affinity_seconds} s"),
        "source ranges": (ranges[0] or "nobody", ranges[1] or "nobody"),
        "balance": (one.balance.value, other.balance.value),
    }
    return tuple(f"{what}: {was} -> {is_}" for what, (was, is_) in pairs.items() if was != is_)


def _scopes(one: Policy, other: Policy) -> tuple[str, str]:
    """Two policies, as Services write them."""
    return one.outside.scope.value, other.outside.scope.value


# --- what no packet shows ---------------------------------------------------------------------


def _of_entry(change: EntryChange, both: Sides) -> Iterator[Notice]:
    """What clients notice that the first packet of a connection does not show."""
    one, other = change
    if one is None:
        return
    balances = both.after.mode.balances
    at = tuple(map(str, one.keys()))
    everybody = ("all",)
    if other is not None and both.before.mode.name != both.after.mode.name:
        choices = [entry for entry in change if entry and entry.affinity_seconds]
        if len(choices) == 2 and len({*one.cluster, *one.local}) > 1:
            yield Notice(Effect.AFFINITY_LOST, "affinity", at, everybody)
    if one.protocol is Protocol.UDP:
        moved = other is not None and {*one.frontends} - {*other.frontends}
        left = {*one.serving} - ({*other.serving} if other and not moved else set())
        if left and at:
            lost = tuple(map(str, sorted(left)))
            yield Notice(Effect.FLOWS_CUT, "flows", at, everybody, lost=lost)
    if balances and other is not None and one.balance is not other.balance and at:
        was, is_ = one.balance.value, other.balance.value
        yield Notice(Effect.CHOSEN_OTHERWISE, "endpoints", at, everybody, was, is_)


def _health(view: Views, service: ServiceName) -> Iterator[Notice]:
    """What load balancers notice."""
    one, other = (each.table.health_checks.get(service) for each in view)
    if one is None or other is None:
        return
    was, is_ = bool(one.local_endpoints), bool(other.local_endpoints)
    if was != is_:
        effect = Effect.HEALTHY if is_ else Effect.UNHEALTHY
        yield Notice(effect, "health check", (f"port {one.port}",), ("load balancers",))


def _conflicts(before: Side, after: Side) -> Mapping[ServiceName, Sequence[str]]:
    """Frontends that Services claim and do not get, since the change."""
    found: dict[ServiceName, list[str]] = {}
    for family in Family:
        known = {*before.conflicts[family]}
        for each in after.conflicts[family]:
            if each not in known:
                text = f"{each.key} is claimed by {each.loser} and served by {each.winner}"
                found.setdefault(each.loser.owner, []).append(text)
    return found


# --- addresses --------------------------------------------------------------------------------


def address_notices(both: Sides, services: Iterable[Ports]) -> list[Notice]:
    """What pings and other ports get, at the addresses of these Services and at free ones."""
    addresses: dict[Family, dict[str, None]] = {family: {} for family in Family}
    for ports in services:
        for family, changes in ports.items():
            for entry in filter(None, chain.from_iterable(changes)):
                addresses[family] |= {f.address: None for f in entry.frontends if f.address}
    said: list[Notice] = []
    for family, view in both.views.items():
        probes = chain(address_probes(view, addresses[family]), unallocated_probes(view))
        said += notices(view, probes)
    return in_order(said)
