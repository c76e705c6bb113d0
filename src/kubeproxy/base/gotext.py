"""Go's text forms of strings, durations and floats: pure functions, free to be imported by all.

Operators, log pipelines and config files know these forms from upstream, so logs, error messages
and written config files must use exactly them. They are exact: what Go would print for the same
value, byte for byte.
"""

from math import isinf, isnan
from typing import Final

_ESCAPES: Final = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
_SMALL_UNITS: Final = ((MILLISECOND, "ms"), (MICROSECOND, "µs"), (1, "ns"))


def quote(text: str) -> str:
    """The text as a Go string literal: printable characters stay, all others are escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(char: str) -> str:
    """One character inside a literal; a byte that was no UTF-8 is shown as that byte."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps an undecodable byte
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\\ufffd"
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def duration(nanoseconds: int) -> str:
    """A duration such as `1h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`."""
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 0:
        return "-" + duration(-nanoseconds)
    if nanoseconds < SECOND:
        size, unit = next(pair for pair in _SMALL_UNITS if nanoseconds >= pair[0])
        return _decimal(nanoseconds, size) + unit
    hours, rest = divmod(nanoseconds, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = f"{_decimal(rest, SECOND)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _decimal(value: int, unit: int) -> str:
    """value/unit in decimals, without trailing zeros; the unit is a power of ten."""
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    return f"{whole}.{fraction:0{len(str(unit)) - 1}d}".rstrip("0")


def number(value: float) -> str:
    """A float as in Go's JSON: no `.0`, and exponents only for the very small and very large."""
    if isnan(value):
        return '"NaN"'
    if isinf(value):
        return '"+Inf"' if value > 0 else '"-Inf"'
    mantissa, e, exponent_text = repr(value).removesuffix(".0").partition("e")
    if not e:
        return mantissa
    exponent = int(exponent_text)
    if not -6 <= exponent < 21:
        return f"{mantissa}e{exponent:+d}"
    whole, _, fraction = mantissa.partition(".")
    if exponent < 0:
        return f"{value:.{len(fraction) - exponent}f}"
    return whole + fraction.ljust(exponent, "0")
