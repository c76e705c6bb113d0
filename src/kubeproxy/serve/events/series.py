"""Recent events, so that what repeats is counted and not sent again. Time is an argument.

The first occurrence is sent at once and the second as well, which makes it a series. Later ones
are counted, and sent when the series has lasted long or has ended.
"""

import msgspec

from kubeproxy.serve.events.event import Event, Occurrence, Severity, Subject

_MINUTE = 60 * 10**9
FORGOTTEN_AFTER = 6 * _MINUTE
"""An event that comes again later than this is a new one."""
SENT_EVERY = 30 * _MINUTE

_Key = tuple[Subject, Severity, str, str]


class _Known(msgspec.Struct, frozen=True):
    occurrence: Occurrence
    sent_count: int
    sent_at: int

    @property
    def due(self) -> int:
        """When there is something to do: to forget it, or to send its count."""
        end = self.occurrence.last + FORGOTTEN_AFTER
        return min(end, self.sent_at + SENT_EVERY) if self.has_news else end

    @property
    def has_news(self) -> bool:
        return self.occurrence.count > self.sent_count


class Series:
    """Occurrences by what makes two events the same: all but the note."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Known] = {}

    def observe(self, event: Event, now: int) -> Occurrence | None:
        """Count an event; what to send now, if anything."""
        key = (event.subject, event.severity, event.reason, event.action)
        known = self._known.get(key)
        if known is None or known.occurrence.last + FORGOTTEN_AFTER <= now:
            occurrence = Occurrence(event, now, now)
        else:
            before = known.occurrence
            occurrence = msgspec.structs.replace(before, last=now, count=before.count + 1)
        if known is not None and occurrence.count > 2:
            self._known[key] = msgspec.structs.replace(known, occurrence=occurrence)
            return None
        self._known[key] = _Known(occurrence, occurrence.count, now)
        return occurrence

    def next_due(self) -> int | None:
        """When to look again; None while nothing is remembered."""
        return min((known.due for known in self._known.values()), default=None)

    def due(self, now: int) -> list[Occurrence]:
        """Forget what has ended; what to send now."""
        ripe = {key: known for key, known in self._known.items() if known.due <= now}
        for key, known in ripe.items():
            occurrence = known.occurrence
            if occurrence.last + FORGOTTEN_AFTER <= now:
                del self._known[key]
            else:
                self._known[key] = _Known(occurrence, occurrence.count, now)
        return [known.occurrence for known in ripe.values() if known.has_news]
