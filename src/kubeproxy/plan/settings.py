"""What differs between two configurations, and between the habits of two modes."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeproxy.config.values import Duration, Quantity
from kubeproxy.plan.side import Side
from kubeproxy.plan.wire import Habit

_ELSEWHERE: Final = "-"
_TOLD: Final = frozenset({"mode"})


def habits(before: Side, after: Side) -> list[Habit]:
    """What the modes do in different ways, whatever the Service."""
    one, other = before.mode.habits(before.config), after.mode.habits(after.config)
    return [
        Habit(subject, one.get(subject, _ELSEWHERE), other.get(subject, _ELSEWHERE))
        for subject in dict.fromkeys((*one, *other))
        if one.get(subject) != other.get(subject)
    ]


def settings(before: Side, after: Side) -> list[Habit]:
    """The fields of the configuration that differ, by their names in the config file."""
    return list(_differing("", before.config, after.config))


def _differing(path: str, one: msgspec.Struct, other: msgspec.Struct) -> Iterator[Habit]:
    for field in msgspec.structs.fields(one):
        was, is_ = getattr(one, field.name), getattr(other, field.name)
        name = f"{path}{field.encode_name}"
        if was == is_ or name in _TOLD:
            continue
        if isinstance(was, msgspec.Struct) and not isinstance(was, Duration | Quantity):
            yield from _differing(f"{name}.", was, is_)
        else:
            yield Habit(name, _text(was), _text(is_))


def _text(value: object) -> str:
    """A value of the configuration, as people write it."""
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value) if value != "" else "none"
