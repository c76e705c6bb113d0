"""The difference between two tables, and its application: patch(a, diff(a, b)) makes a equal b."""

from itertools import chain

import msgspec

from kubeproxy.base.steps import ENTRY, PART, Steps, finish
from kubeproxy.table.entries import Entry, HealthCheck, ServiceName, Table


class Changes(msgspec.Struct, frozen=True):
    """What changed: entries added, changed (before, after) and removed.

    `health_checks` maps a service to its health check, or to None when it was removed.
    """

    added: tuple[Entry, ...] = ()
    changed: tuple[tuple[Entry, Entry], ...] = ()
    removed: tuple[Entry, ...] = ()
    health_checks: dict[ServiceName, HealthCheck | None] = {}

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
