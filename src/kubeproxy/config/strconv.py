"""Numbers and booleans from text, with the rules and the error texts of Go's `strconv`.

Operators search for these error texts, and configurations depend on the rules (`0x10` is a
number for a flag, `T` is true).
"""

import math
import re
import struct
from typing import Final

from kubeproxy.base import gotext
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


def _invalid(function: str, text: str, problem: str = "invalid syntax") -> ValueTextError:
    """The error of a Go function that did not understand the text."""
    return ValueTextError(f"strconv.{function}: parsing {gotext.quote(text)}: {problem}")


def parse_bool(text: str) -> bool:
    """`true`, `false` and the short forms that Go knows."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _invalid("ParseBool", text)


def parse_int32(text: str) -> int:
    """A whole number of 32 bits; prefixes 0x, 0o, 0b and 0 (octal) count."""
    if not _INTEGER.fullmatch(text):
        raise _invalid("ParseInt", text)
    # Python writes octal numbers with 0o only.
    value = int(re.sub(r"^([+-]?)0_?(?=[0-7])", r"\g<1>0o", text), 0)
    if not -(2**31) <= value < 2**31:
        raise _invalid("ParseInt", text, "value out of range")
    return value


def parse_level(text: str) -> int:
    """A log verbosity: decimal digits, at most 31 bits."""
    if not (text.isascii() and text.isdigit()):
        raise _invalid("ParseUint", text)
    value = int(text)
    if value >= 2**31:
        raise _invalid("ParseUint", text, "value out of range")
    return value


def parse_float32(text: str) -> float:
    """A number that fits a float of 32 bits."""
    if not _FLOAT.fullmatch(text):
        raise _invalid("ParseFloat", text)
    value = float(text)
    try:
        struct.pack("<f", value)
    except OverflowError:
        raise _invalid("ParseFloat", text, "value out of range") from None
    if math.isinf(value) and "inf" not in text.lower():
        raise _invalid("ParseFloat", text, "value out of range")
    return value
