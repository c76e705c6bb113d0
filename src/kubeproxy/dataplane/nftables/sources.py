"""Lists of allowed sources: service ports with the same ranges share one, which has a number.

The kernel's cost of ranges grows faster than their count. With a list for each frontend, a Service
with a few hundred ports and ranges would have a hundred thousand of them.
"""

from collections import Counter

import msgspec

from kubeproxy.base.inet import pack
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.elements import Elements, bounds, joined, key_in, range_head
from kubeproxy.dataplane.unfit import Unfit
from kubeproxy.table.entries import Entry, FrontendKind

Ranges = tuple[tuple[bytes, bytes], ...]
"""First and last addresses, in order, without overlaps."""

MOST_RANGES = 5000
"""In one list, after those that overlap or touch are joined."""


def allowed_sources(entry: Entry) -> Ranges:
    """The sources that may use the load balancer's addresses of an entry with source ranges."""
    ranges = [bounds(prefix) for prefix in entry.source_ranges or ()]
    if entry.own_vips:
        vips = entry.addresses(FrontendKind.LOAD_BALANCER)
        ranges += [(pack(vip), pack(vip)) for vip in vips]
    found = tuple(joined(ranges))
    if len(found) > MOST_RANGES:
        raise Unfit(
            f"loadBalancerSourceRanges has {len(found):,} separate ranges, of which at most"
            f" {MOST_RANGES:,} can be programmed: use fewer, larger ones"
        )
    return found


def list_elements(number: int, ranges: Ranges) -> dict[bytes, bytes]:
    """The elements of a list."""
    key = number.to_bytes(4, "big")
    return {range_head(key + first, key + last): b"" for first, last in ranges}


def list_number(head: bytes) -> int:
    """The number of the list that an element belongs to."""
    return int.from_bytes(key_in(head)[:4], "big")


class SourceLists(msgspec.Struct):
    """The lists that are programmed: their ranges and numbers, and how many entries use each."""

    ranges: dict[int, Ranges] = {}
    numbers: dict[Ranges, int] = {}
    users: Counter[int] = msgspec.field(default_factory=Counter)
    last_number: int = 0


class SourceChange:
    """What one transaction does to the lists: entries leave some and join others."""

    def __init__(self, lists: SourceLists, last_number: int = 0) -> None:
        self._lists = lists
        self._last_number = max(lists.last_number, last_number)
        self._fresh: dict[Ranges, int] = {}
        self._given: set[int] = set()
        self._users: Counter[int] = Counter()
        self._of: dict[tuple[object, ...], int | Unfit] = {}

    def leave(self, number: int) -> None:
        """An entry no longer uses this list."""
        if number:
            self._users[number] -= 1

    def join(self, entry: Entry, number: int = 0) -> int:
        """The number of the entry's list, 0 if it has none; a new list gets this one if it can.

        A Service whose ranges change keeps its number then, and only what differs is written.
        """
        vips = entry.addresses(FrontendKind.LOAD_BALANCER)
        if entry.source_ranges is None or not vips:
            return 0
        # The ports of a Service have the same ranges: even thousands are checked once.
        same = (id(entry.source_ranges), *(vips if entry.own_vips else ()))
        if same not in self._of:
            try:
                self._of[same] = self._number(allowed_sources(entry), number)
            except Unfit as error:
                self._of[same] = error
        found = self._of[same]
        if isinstance(found, Unfit):
            raise found
        self._users[found] += 1
        return found

    def _number(self, ranges: Ranges, number: int) -> int:
        if ranges in self._fresh:
            return self._fresh[ranges]
        known = self._lists.numbers.get(ranges)
        if known and known not in self._given:
            return known
        in_use = self._lists.users[number] + self._users[number]
        if not number or in_use or number in self._given:
            number = self._last_number = self._last_number + 1
        self._given.add(number)
        self._fresh[ranges] = number
        return number

    def elements(self) -> tuple[Elements, Elements]:
        """The elements of lists that are removed, and of those that are added."""
        fresh = {number: ranges for ranges, number in self._fresh.items()}
        before: dict[bytes, bytes] = {}
        after: dict[bytes, bytes] = {}
        for number, difference in self._users.items():
            users = self._lists.users[number]
            if users and (number in fresh or not users + difference):
                before |= list_elements(number, self._lists.ranges[number])
            if number in fresh:
                after |= list_elements(number, fresh[number])
        return {names.FIREWALL_SOURCES: before}, {names.FIREWALL_SOURCES: after}

    def commit(self) -> None:
        """Note that the transaction succeeded."""
        lists = self._lists
        lists.last_number = self._last_number
        for number in self._given & lists.ranges.keys():
            del lists.numbers[lists.ranges[number]]
        for ranges, number in self._fresh.items():
            lists.ranges[number], lists.numbers[ranges] = ranges, number
        lists.users.update(self._users)
        for number in self._users:
            if not lists.users[number]:
                del lists.users[number]
                del lists.numbers[lists.ranges.pop(number)]
