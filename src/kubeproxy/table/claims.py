"""Which service port gets a destination that several claim. External IPs are free text.

Upstream leaves this open. Here a cluster IP wins over a load balancer's address, and that over an
external IP; then the older Service wins, so that a new one takes nothing from it; then the first
by name. When the winner releases the destination, the next one gets it. The cost of a claim does
not depend on how many others there are.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kubeproxy.base.steps import PART, Steps
from kubeproxy.table.entries import PRECEDENCE, Entry, Frontend, FrontendKey, ServicePortName


class Claim(NamedTuple):
    """The claim of a service port to a destination; the smallest one wins."""

    precedence: int
    created: str
    name: ServicePortName


class Conflict(msgspec.Struct, frozen=True):
    """A destination that a service port claims and does not get."""

    key: FrontendKey
    loser: ServicePortName
    winner: ServicePortName


def claims_of(entry: Entry, created: str) -> Steps[dict[FrontendKey, Claim]]:
    """What an entry claims. Its frontends are in order of precedence: the first one counts."""
    found: dict[FrontendKey, Claim] = {}
    for start in range(0, len(entry.frontends), PART):
        if start:
            yield
        for frontend in entry.frontends[start : start + PART]:
            key = entry.key(frontend)
            if key not in found:
                found[key] = Claim(PRECEDENCE[frontend.kind], created, entry.name)
    return found


class Claims:
    """All claims by destination."""

    def __init__(self) -> None:
        self._winners: dict[FrontendKey, Claim] = {}
        self._losers: dict[FrontendKey, list[Claim]] = {}

    def replace(
        self, before: Mapping[FrontendKey, Claim], after: Mapping[FrontendKey, Claim]
    ) -> Iterator[Conflict | ServicePortName | None]:
        """Replace the claims of an entry.

        Yields new conflicts, and the names of other service ports that won or lost a destination.
        None is the end of a step.
        """
        for count, (key, claim) in enumerate(before.items(), 1):
            if after.get(key) != claim:
                yield from self._release(key, claim)
            if count % PART == 0:
                yield None
        for count, (key, claim) in enumerate(after.items(), 1):
            if before.get(key) != claim:
                yield from self._claim(key, claim)
            if count % PART == 0:
                yield None

    def _release(self, key: FrontendKey, claim: Claim) -> Iterator[ServicePortName]:
        losers = self._losers.get(key, [])
        if self._winners[key] != claim:
            del losers[bisect_left(losers, claim)]
        elif losers:
            self._winners[key] = losers.pop(0)
            yield self._winners[key].name
        else:
            del self._winners[key]
        if not losers:
            self._losers.pop(key, None)

    def _claim(self, key: FrontendKey, claim: Claim) -> Iterator[Conflict | ServicePortName]:
        winner = self._winners.setdefault(key, claim)
        if winner is claim:
            return
        loser = claim
        if claim < winner:
            self._winners[key], loser = claim, winner
            yield winner.name
        insort(self._losers.setdefault(key, []), loser)
        yield Conflict(key, loser.name, self._winners[key].name)

    def granted(self, entry: Entry) -> Steps[Entry]:
        """The entry with the frontends that it gets."""
        if not self._losers:
            return entry
        name, frontends = entry.name, entry.frontends
        granted: list[Frontend] = []
        for start in range(0, len(frontends), PART):
            if start:
                yield
            part = frontends[start : start + PART]
            granted += [f for f in part if self._winners[entry.key(f)].name == name]
        if len(granted) == len(frontends):
            return entry
        return msgspec.structs.replace(entry, frontends=tuple(granted))

    def count_conflicts(self) -> int:
        """How many claims lost."""
        return sum(map(len, self._losers.values()))

    def conflicts(self) -> Iterable[Conflict]:
        """All claims that lost, in order."""
        for key in sorted(self._losers):
            winner = self._winners[key].name
            for name in sorted(claim.name for claim in self._losers[key]):
                yield Conflict(key, name, winner)
