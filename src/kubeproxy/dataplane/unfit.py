"""Entries that cannot be encoded, or that a program rejects: they are left out.

The model has validated all values, so none are expected, and nothing is checked beforehand. When
writing fails, each entry is tried alone to find those at fault.
"""

from collections.abc import Callable, Container, Iterable, Mapping

from kubeproxy.dataplane.contract import Update
from kubeproxy.table.entries import Entry, ServicePortName, Table


class Unfit(ValueError):
    """An entry cannot be written, for a reason that is known."""


def unfit(
    entries: Iterable[Entry], write: Callable[[Entry], object]
) -> dict[ServicePortName, str]:
    """Those that cannot be written, with the reason."""
    found: dict[ServicePortName, str] = {}
    for entry in entries:
        try:
            write(entry)
        except Unfit as error:
            found[entry.name] = str(error)
        except Exception as error:  # noqa: BLE001  # any error
            found[entry.name] = f"it cannot be written: {type(error).__name__}: {error}"
    return found


def without(table: Table, names: Container[ServicePortName]) -> Table:
    """The table but for the entries of these names."""
    left = Table(table.family)
    for name, entry in table.entries.items():
        if name not in names:
            left.put(entry)
    left.health_checks = table.health_checks
    return left


class LeftOut:
    """Service ports that are left out until a full sync, or until they change."""

    def __init__(self) -> None:
        self._entries: dict[ServicePortName, tuple[Entry, str]] = {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def still(self, update: Update) -> dict[ServicePortName, str]:
        """Those that are not tried again in this update, with the reasons."""
        if update.full:
            return {}
        now = update.table.entries
        return {
            name: reason
            for name, (entry, reason) in self._entries.items()
            if now.get(name) == entry
        }

    def remember(self, table: Table, failed: Mapping[ServicePortName, str]) -> None:
        """Remember what an update has left out."""
        self._entries = {name: (table.entries[name], why) for name, why in failed.items()}
