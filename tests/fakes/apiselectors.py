"""Label and field selectors: text -> requirements -> whether an object meets them."""

import re
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from fakes.apierrors import ApiError


class Operator(Enum):
    """How a requirement compares."""

    EXISTS = "exists"
    MISSING = "missing"
    IN = "in"
    NOT_IN = "not in"


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one key."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9_.-]*"
_IN = r"in\s*\((?P<values>[^()]+)\)\s*"
_FORMS = (
    (re.compile(rf"\s*(?P<key>{_KEY})\s*"), Operator.EXISTS),
    (re.compile(rf"\s*!\s*(?P<key>{_KEY})\s*"), Operator.MISSING),
    (re.compile(rf"\s*(?P<key>{_KEY})\s*==?\s*(?P<values>{_VALUE})\s*"), Operator.IN),
    (re.compile(rf"\s*(?P<key>{_KEY})\s*!=\s*(?P<values>{_VALUE})\s*"), Operator.NOT_IN),
    (re.compile(rf"\s*(?P<key>{_KEY})\s+{_IN}"), Operator.IN),
    (re.compile(rf"\s*(?P<key>{_KEY})\s+not{_IN}"), Operator.NOT_IN),
)
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")
_FIELD_TERM = re.compile(r"(?P<key>[A-Za-z0-9_.]+)(?P<operator>==|!=|=)(?P<value>.*)")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a labelSelector; an empty text has none."""
    if not text.strip():
        return ()
    return tuple(_label_requirement(term) for term in _COMMA_OUTSIDE_PARENTHESES.split(text))


def _label_requirement(term: str) -> Requirement:
    for form, operator in _FORMS:
        match = form.fullmatch(term)
        if match:
            values = match.groupdict().get("values")
            split = () if values is None else tuple(part.strip() for part in values.split(","))
            return Requirement(match["key"], operator, split)
    raise ApiError(400, f"unable to parse requirement: {term!r}")


def parse_fields(text: str, known: Sequence[str]) -> tuple[Requirement, ...]:
    """The requirements of a fieldSelector, which may name only the known fields."""
    return tuple(_field_requirement(term, known) for term in text.split(",") if term)


def _field_requirement(term: str, known: Sequence[str]) -> Requirement:
    match = _FIELD_TERM.fullmatch(term)
    if match is None:
        raise ApiError(400, f"invalid selector: {term!r}; can't understand {term!r}")
    if match["key"] not in known:
        raise ApiError(400, f"field label not supported: {match['key']}")
    operator = Operator.NOT_IN if match["operator"] == "!=" else Operator.IN
    return Requirement(match["key"], operator, (match["value"],))


def meets(requirements: Sequence[Requirement], values: Mapping[str, str]) -> bool:
    """Whether the labels, or the fields, of an object meet all requirements."""
    return all(_meets_one(requirement, values) for requirement in requirements)


def _meets_one(requirement: Requirement, values: Mapping[str, str]) -> bool:
    value = values.get(requirement.key)
    match requirement.operator:
        case Operator.EXISTS:
            return value is not None
        case Operator.MISSING:
            return value is None
        case Operator.IN:
            return value in requirement.values
        case Operator.NOT_IN:
            return value not in requirement.values
