"""The text that Prometheus reads, format 0.0.4, byte for byte as Go programs write it.

Series are told apart by their text: `le="1"` and `le="1.0"` are two, so numbers have Go's form.
"""

from collections.abc import Iterable
from math import isinf, isnan


def number(value: float) -> str:
    """A sample's value: no `.0`, and an exponent of two digits below 1e-4 and from 1e6 on."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if -1e6 < value < 1e6 and value == int(value):
        return str(int(value))
    digits, point = _digits(abs(value))
    sign = "-" if value < 0 else ""
    if not -4 < point <= 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{point - 1:+03d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point]}.{digits[point:]}"


def _digits(value: float) -> tuple[str, int]:
    """The shortest digits that mean the value, and where among them the decimal point stands."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole.lstrip("0")) or len(digits) - len(fraction)
    return digits.rstrip("0"), point + int(exponent or 0)


def label_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Labels between their braces, sorted by name; "" when there are none."""
    pairs = [
        f'{name}="{_escape(value)}"' for name, value in sorted(zip(names, values, strict=True))
    ]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def with_bound(labels: str, bound: float) -> str:
    """The labels of a histogram's bucket: `le` comes last."""
    return f'{labels[:-1]},le="{number(bound)}"}}' if labels else f'{{le="{number(bound)}"}}'


def header(name: str, kind: str, help_: str) -> str:
    """The two lines in front of a family's samples."""
    escaped = help_.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def _escape(value: str) -> str:
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value
