"""Durations as Go writes and reads them: `1m30s`, `500ms`, `0s`.

Whole nanoseconds inside, so that what is read and written again is the same.
"""

import re
from typing import Final

import msgspec

from kubeproxy.base import gotext
from kubeproxy.config.errors import ValueTextError

_UNITS: Final = {
    "ns": 1,
    "us": gotext.MICROSECOND,
    "µs": gotext.MICROSECOND,  # the micro sign
    "μs": gotext.MICROSECOND,  # the Greek letter; Go reads both
    "ms": gotext.MILLISECOND,
    "s": gotext.SECOND,
    "m": gotext.MINUTE,
    "h": gotext.HOUR,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_LONGEST: Final = 2**63
_LONGEST_TEXT: Final = 400  # reading digits takes time with the square of their count


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time; may be negative. False when it is zero."""

    nanoseconds: int = 0

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        return gotext.duration(self.nanoseconds)

    @property
    def seconds(self) -> float:
        """The length in seconds, for clocks and timers."""
        return self.nanoseconds / gotext.SECOND


def of_seconds(seconds: int) -> Duration:
    """The duration of so many whole seconds."""
    return Duration(seconds * gotext.SECOND)


def parse_duration(text: str) -> Duration:
    """A duration from its text: numbers with units one after the other, or a bare 0."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return Duration()
    if not unsigned or len(unsigned) > _LONGEST_TEXT:
        raise _invalid(text)
    total = 0
    position = 0
    while position < len(unsigned):
        part = _PART.match(unsigned, position)
        if part is None or not (part[1] or part[2]):
            raise _invalid(text)
        total += _nanoseconds(part, text)
        position = part.end()
    if total > _LONGEST or (total == _LONGEST and not text.startswith("-")):
        raise _invalid(text)
    return Duration(-total if text.startswith("-") else total)


def _nanoseconds(part: re.Match[str], text: str) -> int:
    """The length of one number with its unit."""
    whole, fraction, unit = part[1] or "0", part[2] or "", part[3]
    if not unit:
        raise ValueTextError(f"time: missing unit in duration {gotext.quote(text)}")
    if unit not in _UNITS:
        raise ValueTextError(
            f"time: unknown unit {gotext.quote(unit)} in duration {gotext.quote(text)}"
        )
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * _UNITS[unit] // scale


def _invalid(text: str) -> ValueTextError:
    return ValueTextError(f"time: invalid duration {gotext.quote(text)}")
