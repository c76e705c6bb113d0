"""Numbers, durations, sizes and addresses from texts, with the rules and error texts of Go.

Operators search for these error texts, and configurations depend on the rules: `0x10` is a number
for a flag, `T` is true, `4k` is 4000.
"""

import math
import re
import struct
from decimal import Decimal
from typing import Final

import msgspec

from kubeproxy.base import gotext
from kubeproxy.base.inet import parse_address
from kubeproxy.config.errors import ValueTextError

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INTEGER: Final = re.compile(
    r"[+-]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])*|[1-9](?:_?[0-9])*)",
    re.ASCII,
)
_FLOAT: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)|nan",
    re.ASCII | re.IGNORECASE,
)


def _unparsed(function: str, text: str, problem: str = "invalid syntax") -> ValueTextError:
    """The error of a Go function that did not understand the text."""
    return ValueTextError(f"strconv.{function}: parsing {gotext.quote(text)}: {problem}")


def parse_bool(text: str) -> bool:
    """`true`, `false` and the short forms that Go knows."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _unparsed("ParseBool", text)


def parse_int32(text: str) -> int:
    """A whole number of 32 bits; prefixes 0x, 0o, 0b and 0 (octal) count."""
    if not _INTEGER.fullmatch(text):
        raise _unparsed("ParseInt", text)
    # Python writes octal numbers with 0o only.
    value = int(re.sub(r"^([+-]?)0_?(?=[0-7])", r"\g<1>0o", text), 0)
    if not -(2**31) <= value < 2**31:
        raise _unparsed("ParseInt", text, "value out of range")
    return value


def parse_level(text: str) -> int:
    """A log verbosity: decimal digits, at most 31 bits."""
    if not (text.isascii() and text.isdigit()):
        raise _unparsed("ParseUint", text)
    value = int(text)
    if value >= 2**31:
        raise _unparsed("ParseUint", text, "value out of range")
    return value


def parse_float32(text: str) -> float:
    """A number that fits a float of 32 bits."""
    if not _FLOAT.fullmatch(text):
        raise _unparsed("ParseFloat", text)
    value = float(text)
    try:
        struct.pack("<f", value)
    except OverflowError:
        raise _unparsed("ParseFloat", text, "value out of range") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise _unparsed("ParseFloat", text, "value out of range")
    return value


# --- durations ----------------------------------------------------------------------------------

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
_PART: Final = re.compile(r"(?!\Z)([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
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


def of_milliseconds(milliseconds: int) -> Duration:
    """The duration of so many whole milliseconds."""
    return Duration(milliseconds * gotext.MILLISECOND)


def parse_duration(text: str) -> Duration:
    """A duration from its text: numbers with units one after the other, or a bare 0."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return Duration()
    if not unsigned or len(unsigned) > _LONGEST_TEXT:
        raise _invalid_duration(text)
    total = 0
    for part in _PART.finditer(unsigned):
        if not (part[1] or part[2]):
            raise _invalid_duration(text)
        total += _nanoseconds(part, text)
    if total > _LONGEST or (total == _LONGEST and not text.startswith("-")):
        raise _invalid_duration(text)
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


def _invalid_duration(text: str) -> ValueTextError:
    return ValueTextError(f"time: invalid duration {gotext.quote(text)}")


# --- sizes --------------------------------------------------------------------------------------

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_QUANTITY_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", re.ASCII)
_QUANTITY_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,3})", re.ASCII)
_SMALL: Final = {"n": -9, "u": -6, "m": -3}
_DECIMAL: Final = {**_SMALL, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class Quantity(msgspec.Struct, frozen=True):
    """A size: its text, as it is written back, and its value in whole units, rounded up."""

    text: str = "0"
    value: int = 0

    def __str__(self) -> str:
        return self.text


def parse_quantity(text: str) -> Quantity:
    """A quantity from its text."""
    form = _QUANTITY.fullmatch(text)
    if form is None:
        raise ValueTextError(
            f"quantities must match the regular expression '^({_QUANTITY.pattern.strip('()')})$'"
        )
    number, suffix = form[1], form[2]
    if not _QUANTITY_NUMBER.fullmatch(number):
        raise ValueTextError("unable to parse numeric part of quantity")
    return Quantity(text, math.ceil(Decimal(number) * _factor(suffix)))


def _factor(suffix: str) -> Decimal:
    """What the suffix multiplies with; an upper-case K is none."""
    if suffix in _BINARY:
        return Decimal(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Decimal(10) ** _DECIMAL[suffix]
    exponent = _QUANTITY_EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise ValueTextError(
            "unable to parse quantity's suffix: the suffixes are k, M, G (powers of 1000)"
            " and Ki, Mi, Gi (powers of 1024)"
        )
    return Decimal(10) ** int(exponent[1])


# --- addresses ----------------------------------------------------------------------------------


def split_host_port(text: str) -> tuple[str, str]:
    """The two halves of `host:port` or `[host]:port`; neither is looked at any closer."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueTextError(f"address {text}: missing ']' in address")
        colon, port = rest[:1], rest[1:]
    else:
        host, colon, port = text.rpartition(":")
    if colon != ":":
        raise ValueTextError(f"address {text}: missing port in address")
    if ":" in (host if not text.startswith("[") else port):
        raise ValueTextError(f"address {text}: too many colons in address")
    if "[" in host or "]" in host:
        raise ValueTextError(f"address {text}: unexpected bracket in address")
    return host, port


def with_port(text: str, port: int) -> str:
    """A bare address gets the port; everything else is left to validation as it is."""
    if parse_address(text) is None:
        return text
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"
