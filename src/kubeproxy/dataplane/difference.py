"""What a full sync would change in the kernel, for people and programs to read."""

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from enum import Enum

import msgspec


class Change(Enum):
    """What would happen to an object of the kernel."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is not as it should be, in the words of the kernel's own tools.

    `service_port` is the one that it belongs to, "" where that is not known or not one. `reason`
    says what is wrong, where the object alone does not.
    """

    change: Change
    object: str
    service_port: str = ""
    reason: str = ""


def ordered_changes(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> Iterator[tuple[Change, int]]:
    """What makes the one list the other: places of `before` that go, of `after` that come."""
    if before == after:
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, low, high, first, last in matcher.get_opcodes():
        if kind != "equal":
            yield from ((Change.REMOVE, place) for place in range(low, high))
            yield from ((Change.ADD, place) for place in range(first, last))
