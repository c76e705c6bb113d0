"""Numbers and times as people read them."""

from datetime import datetime
from typing import Final

UNKNOWN: Final = "\N{EN DASH}"


def count(number: int) -> str:
    """A number, its thousands apart."""
    return f"{number:,}"


def plural(number: int, one: str, many: str = "") -> str:
    """A number and what it counts."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def rate(per_second: float | None) -> str:
    """How many in a second; a dash when that is not known."""
    if per_second is None:
        return UNKNOWN
    if per_second >= 100 or not per_second:
        return f"{per_second:,.0f}"
    return f"{per_second:.1f}"


def connections(number: int | None) -> str:
    """How many connections; a dash when they are not counted."""
    return UNKNOWN if number is None else count(number)


def elapsed(seconds: float) -> str:
    """How long something took: `0.42 ms`, `12 ms`, `1.25 s`."""
    milliseconds = seconds * 1000
    if milliseconds < 10:
        return f"{max(milliseconds, 0.01):.2g} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{seconds:.3g} s"


def span(seconds: float) -> str:
    """How long something has lasted, in its two largest units."""
    whole = int(max(0.0, seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min {whole % 60} s"
    return f"{whole} s"


def size(number: int) -> str:
    """Bytes as megabytes."""
    return f"{number / 1e6:,.0f} MB"


def clock(stamp: str) -> str:
    """The time of day of an RFC 3339 stamp, in UTC as the log has it."""
    return stamp[11:19]


def since(stamp: str, now: str) -> float:
    """Seconds from one stamp to the other."""
    return (_parsed(now) - _parsed(stamp)).total_seconds()


def _parsed(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp)
