"""When to say that something fails: at once, then once a period, and once when it works again.

Many can fail for the same reason (four watches, one server); they share one complaint, so that
an outage is a line a minute in the log and not a flood. Time is an argument.
"""

from collections.abc import Hashable

import msgspec


class Cry(msgspec.Struct, frozen=True):
    """Say that it fails; it has done so for that many seconds."""

    lasting: float


class Relief(msgspec.Struct, frozen=True):
    """Say that all is well again; it was not for that many seconds."""

    lasting: float


class Complaint:
    """One thing that can fail, for several parties; a line at most each `period` seconds."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._failing: set[Hashable] = set()
        self._since = 0.0
        self._said_at: float | None = None
        self._said = False

    def lasting(self, now: float) -> float | None:
        """For how many seconds it has been failing; None when it works."""
        return now - self._since if self._failing else None

    def failed(self, party: Hashable, now: float) -> Cry | None:
        """It failed for this party; the result says whether that is worth a line."""
        if not self._failing:
            self._since = now
            self._said = False
        self._failing.add(party)
        if self._said_at is not None and now - self._said_at < self._period:
            return None
        self._said_at = now
        self._said = True
        return Cry(now - self._since)

    def worked(self, party: Hashable, now: float) -> Relief | None:
        """It worked for this party; the result says whether to tell that the trouble is over."""
        if party not in self._failing:
            return None
        self._failing.discard(party)
        if self._failing or not self._said:
            return None
        return Relief(now - self._since)
