"""Entries that cannot be encoded, or that a program rejects: they are left out.

The model has validated all values, so none are expected, and nothing is checked beforehand. When
writing fails, each entry is tried alone to find those at fault.
"""

from collections.abc import Callable, Container, Iterable

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
