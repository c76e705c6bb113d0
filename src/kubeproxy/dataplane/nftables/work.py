"""What one transaction does with entries, as elements before and after it."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from kubeproxy.dataplane.nftables.elements import (
    ElementKey,
    Elements,
    address_elements,
    entry_elements,
    hairpin_elements,
    replaced_elements,
    shared_elements,
)
from kubeproxy.dataplane.nftables.placed import Placed
from kubeproxy.dataplane.nftables.places import Replaced
from kubeproxy.dataplane.nftables.sources import SourceChange
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.node import NodeView


class Work(msgspec.Struct):
    """What a transaction does with entries: it removes some, adds some and replaces some.

    `number` is the last one that was given to an entry.
    """

    sources: SourceChange
    number: int
    removed: dict[ServicePortName, Placed] = {}
    added: list[Placed] = []
    replaced: list[Replaced] = []

    def before(self) -> list[Placed]:
        """The states that are no more."""
        return [*self.removed.values(), *(change.before for change in self.replaced)]

    def after(self) -> list[Placed]:
        """The states that are new."""
        return [*self.added, *(change.after for change in self.replaced)]

    def placed(self) -> dict[ServicePortName, Placed | None]:
        """The new state of each entry; None of one that is removed."""
        gone: dict[ServicePortName, Placed | None] = dict.fromkeys(self.removed)
        return gone | {each.entry.name: each for each in self.after()}

    def shared(self) -> Counter[ElementKey]:
        """How many more there are of each element that entries share."""
        found: Counter[ElementKey] = Counter()
        for each in self.removed.values():
            found.subtract(shared_elements(each.entry))
        for each in self.added:
            found.update(shared_elements(each.entry))
        for change in self.replaced:
            before, after = change.before.entry, change.after.entry
            found.subtract(address_elements(before))
            found.update(address_elements(after))
            for left, came in change.lists:
                found.subtract(hairpin_elements(before.protocol, left))
                found.update(hairpin_elements(after.protocol, came))
        return found

    def elements(
        self, was: NodeView, node: NodeView, numbers: Mapping[str, int]
    ) -> tuple[list[Elements], list[Elements]]:
        """The elements of entries, before and after."""
        old = [entry_elements(each, was, numbers) for each in self.removed.values()]
        new = [entry_elements(each, node, numbers) for each in self.added]
        for change in self.replaced:
            before, after = replaced_elements(change, (was, node), numbers)
            old.append(before)
            new.append(after)
        return old, new

    @property
    def lost_numbers(self) -> bool:
        """Whether there may be pins of a service that has its number no more."""
        gone = any(each.number for each in self.removed.values())
        return gone or any(map(_loses_number, self.replaced))


def _loses_number(change: Replaced) -> bool:
    return change.before.number not in {0, change.after.number}
