"""Quantities such as `512`, `4k`, `2Ki`: sizes in the notation of Kubernetes resources."""

import math
import re
from decimal import Decimal
from typing import Final

import msgspec

from kubeproxy.config.errors import ValueTextError

_FORM: Final = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", re.ASCII)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]{1,3})", re.ASCII)
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
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueTextError(
            f"quantities must match the regular expression '^({_FORM.pattern.strip('()')})$'"
        )
    number, suffix = form[1], form[2]
    if not _NUMBER.fullmatch(number):
        raise ValueTextError("unable to parse numeric part of quantity")
    return Quantity(text, math.ceil(Decimal(number) * _factor(suffix)))


def _factor(suffix: str) -> Decimal:
    """What the suffix multiplies with; an upper-case K is none."""
    if suffix in _BINARY:
        return Decimal(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return Decimal(10) ** _DECIMAL[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise ValueTextError(
            "unable to parse quantity's suffix: the suffixes are k, M, G (powers of 1000)"
            " and Ki, Mi, Gi (powers of 1024)"
        )
    return Decimal(10) ** int(exponent[1])
