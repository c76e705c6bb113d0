"""The difference between two tables, and its application: patch(a, diff(a, b)) makes a equal b."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from kubeproxy.base.steps import ENTRY, PART, Steps, finish
from kubeproxy.table.entries import (
    Backend,
    Entry,
    HealthCheck,
    ServiceName,
    ServicePortName,
    Table,
)


class Members(NamedTuple):
    """The backends that left a list, and those that came."""

    left: frozenset[Backend] = frozenset()
    came: frozenset[Backend] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.left or self.came)


NO_MEMBERS = Members()


class ListChanges(NamedTuple):
    """How the lists of an entry change."""

    cluster: Members
    local: Members


class Changes(msgspec.Struct, frozen=True):
    """What changed: entries added, changed (before, after) and removed.

    `health_checks` maps a service to its health check, or to None when it was removed. `lists`
    says how the lists of changed entries differ, for large ones: comparing these takes time.
    """

    added: tuple[Entry, ...] = ()
    changed: tuple[tuple[Entry, Entry], ...] = ()
    removed: tuple[Entry, ...] = ()
    health_checks: dict[ServiceName, HealthCheck | None] = {}
    lists: Mapping[ServicePortName, ListChanges] = {}

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed or self.health_checks)


NO_CHANGES = Changes()


def diff(old: Table, new: Table) -> Changes:
    """What has to happen to the old table to make it the new one."""
    return Changes(
        added=tuple(entry for name, entry in new.entries.items() if name not in old.entries),
        changed=tuple(
            (old.entries[name], entry)
            for name, entry in new.entries.items()
            if name in old.entries and old.entries[name] != entry
        ),
        removed=tuple(entry for name, entry in old.entries.items() if name not in new.entries),
        health_checks={
            name: new.health_checks.get(name)
            for name in old.health_checks.keys() | new.health_checks.keys()
            if old.health_checks.get(name) != new.health_checks.get(name)
        },
    )


def list_changes(before: Entry, after: Entry) -> ListChanges:
    """How the lists of an entry change, by comparing them."""
    return ListChanges(members(before.cluster, after.cluster), members(before.local, after.local))


def members(before: Sequence[Backend], after: Sequence[Backend]) -> Members:
    """Which backends of a list are others.

    It is quick for lists in the order of texts that have most objects in common.
    """
    if before is after:
        return NO_MEMBERS
    left: set[Backend] = set()
    came: set[Backend] = set()
    one = other = 0
    while True:
        same = _alike(before, one, after, other)
        one, other = one + same, other + same
        if one == len(before) or other == len(after):
            break
        old, new = str(before[one]), str(after[other])
        if old <= new:
            left.add(before[one])
            one += 1
        if new <= old:
            came.add(after[other])
            other += 1
    left.update(before[one:])
    came.update(after[other:])
    return Members(frozenset(left - came), frozenset(came - left))


def _alike(before: Sequence[Backend], one: int, after: Sequence[Backend], other: int) -> int:
    """How many backends follow in both lists from there on, found by comparing ever more."""

    def same(start: int, end: int) -> bool:
        return before[one + start : one + end] == after[other + start : other + end]

    most = min(len(before) - one, len(after) - other)
    known = end = 0
    while end < most:
        end = min(2 * end + 1, most)
        if not same(known, end):
            break
        known = end
    while end - known > 1:  # they differ in between
        middle = (known + end) // 2
        if same(known, middle):
            known = middle
        else:
            end = middle
    return known


def patch(table: Table, changes: Changes) -> None:
    """Carry the changes out on the table."""
    finish(patch_in_steps(table, changes))


def patch_in_steps(table: Table, changes: Changes) -> Steps[None]:
    """Carry the changes out on the table; between the steps it has some of them."""
    work = 0
    for entry in changes.removed:
        yield from table.remove_in_steps(entry.name)
        work += ENTRY + len(entry.frontends)
        if work >= PART:
            work = 0
            yield
    for entry in chain((after for _, after in changes.changed), changes.added):
        yield from table.put_in_steps(entry)
        work += ENTRY + len(entry.frontends)
        if work >= PART:
            work = 0
            yield
    for name, check in changes.health_checks.items():
        if check is None:
            table.health_checks.pop(name, None)
        else:
            table.health_checks[name] = check
