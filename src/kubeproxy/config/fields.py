"""YAML nodes to the fields of a structure, by their types; remarks are collected with paths."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, get_args, get_origin

import msgspec

from kubeproxy.base.kubeyaml import MappingNode, Node, ScalarNode, ScalarValue, SequenceNode
from kubeproxy.config.errors import Level, Notice, ValueTextError, closest
from kubeproxy.config.removed import REMOVED_FIELDS, Removed
from kubeproxy.config.types import Float32, Int32, KubeProxyConfiguration, UInt32
from kubeproxy.config.values import Duration, Quantity, parse_duration, parse_quantity

T = TypeVar("T", bound=msgspec.Struct)

# The kind of document, which is checked before its fields are read.
_TYPE_META: Final = frozenset({"apiVersion", "kind"})


class Remarks(msgspec.Struct, frozen=True):
    """The problems of a document, and notices about it; both grow while it is read."""

    problems: list[str]
    notices: list[Notice]


class _Place(msgspec.Struct, frozen=True):
    """A place in the document, and where remarks go."""

    path: str
    remarks: Remarks

    def child(self, name: str) -> "_Place":
        """The place of a field."""
        return _Place(f"{self.path}.{name}" if self.path else name, self.remarks)

    def item(self, index: int) -> "_Place":
        """The place of an element of a list."""
        return _Place(f"{self.path}[{index}]", self.remarks)

    def problem(self, text: str) -> None:
        """Add a problem."""
        self.remarks.problems.append(text)

    def warn(self, message: str, **pairs: object) -> None:
        """Add a notice about the field."""
        notice = Notice(Level.WARNING, message, {"field": self.path, **pairs})
        self.remarks.notices.append(notice)

    def wrong(self, node: Node, type_name: str) -> None:
        """Add the problem that the node is not of the type."""
        self.problem(
            f'cannot unmarshal {_name_of(node)} into field "{self.path}" of type {type_name}'
            f" (line {node.line})"
        )


def read_struct(node: MappingNode, struct: type[T], remarks: Remarks) -> T:
    """The structure that a mapping describes; what is absent or null keeps its default."""
    return _struct(node, struct, _Place("", remarks))


def _struct(node: MappingNode, struct: type[T], place: _Place) -> T:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}

    def read(name: str, value: Node) -> object:
        field, inner = fields.get(name), place.child(name)
        removed = REMOVED_FIELDS.get(inner.path)
        if removed is not None:
            _warn_of_removed(removed, value, inner)
        if field is not None:
            return _value(value, field.type, inner)
        if not place.path and name in _TYPE_META:
            return _value(value, str, inner)
        if removed is None:
            place.problem(_unknown(inner.path, value, fields))
        return None

    values = _entries(node, place, read)
    return struct(
        **{
            field.name: values[name]
            for name, field in fields.items()
            if values.get(name) is not None
        }
    )


def _entries(
    node: MappingNode, place: _Place, read: Callable[[str, Node], object]
) -> dict[str, object]:
    """The fields of a mapping, each as it is read.

    A field that is repeated with the same value, as in files put together from parts, is a notice;
    with another value it is a problem.
    """
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key, node_of_value in node.pairs:
        if not isinstance(key, ScalarNode):
            place.problem(f"a key is no string (line {key.line})")
            continue
        name, line, inner = key.text, key.line, place.child(key.text)
        value = read(name, node_of_value)
        if name not in lines:
            values[name], lines[name] = value, line
        elif values[name] == value:
            inner.warn(
                "Config field is given twice, with the same value", lines=[lines[name], line]
            )
        else:
            where = f"lines {lines[name]} and {line}, with different values"
            place.problem(f'duplicate field "{inner.path}" ({where})')
    return values


def _warn_of_removed(removed: Removed, node: Node, place: _Place) -> None:
    """Add a notice that the field has no effect, unless it is empty."""
    if not (isinstance(node, ScalarNode) and node.value in (None, "")):
        place.warn(
            "Config field has no effect: what it set was removed from Kubernetes",
            line=node.line,
            removedIn=removed.release,
            instead=removed.instead,
        )


def _value(node: Node, kind: object, place: _Place) -> object:
    """The value of a field; None when it is null or wrong, which leaves the default."""
    match node:
        case ScalarNode(value=None):
            return None
        case ScalarNode() if kind in _SCALARS:
            return _scalar(node, kind, place)
        case MappingNode() if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _struct(node, kind, place)
        case MappingNode() if get_origin(kind) is Mapping:
            return _entries(node, place, lambda key, at: _item(at, bool, place.child(key)))
        case SequenceNode() if get_origin(kind) is tuple:
            items = enumerate(node.items)
            return tuple(_item(item, get_args(kind)[0], place.item(i)) for i, item in items)
        case _:
            place.wrong(node, _type_name(kind))
            return None


def _item(node: Node, kind: object, place: _Place) -> object:
    """An element of a list or of a map, which has no default to fall back to: null is wrong."""
    if isinstance(node, ScalarNode) and node.value is None:
        place.wrong(node, _type_name(kind))
    return _value(node, kind, place)


def _type_name(kind: object) -> str:
    """The name of a type in error texts."""
    if kind in _SCALARS:
        return _SCALARS[kind][0]
    if get_origin(kind) is Mapping:
        return "map[string]bool"
    if get_origin(kind) is tuple:
        return f"[]{_type_name(get_args(kind)[0])}"
    return "object"


def _name_of(node: Node) -> str:
    """The JSON type of a node; a number comes with its text."""
    if not isinstance(node, ScalarNode):
        return "object" if isinstance(node, MappingNode) else "array"
    names = {type(None): "null", bool: "bool", str: "string"}
    return names.get(type(node.value), f"number {node.text}")


# --- scalars ----------------------------------------------------------------------------------


_Reading = Callable[[ScalarValue], object]
"""Gives None for a value of the wrong type."""


def _scalar(node: ScalarNode, kind: object, place: _Place) -> object:
    """The value of a scalar; None when it is wrong."""
    type_name, read = _SCALARS[kind]
    try:
        value = read(node.value)
    except ValueTextError as error:
        place.problem(f'field "{place.path}": {error} (line {node.line})')
        return None
    if value is None:
        place.wrong(node, type_name)
    return value


def _only(type_: type) -> _Reading:
    return lambda value: value if isinstance(value, type_) else None


def _whole(low: int, high: int) -> Callable[[ScalarValue], int | None]:
    """Whole numbers from low up to and without high."""

    def read(value: ScalarValue) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if low <= value < high else None

    return read


def _float(value: ScalarValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all of them
        return None


def _duration(value: ScalarValue) -> Duration | None:
    return parse_duration(value) if isinstance(value, str) else None


def _duration_or_nanoseconds(value: ScalarValue) -> Duration | int | None:
    return _duration(value) if isinstance(value, str) else _NANOSECONDS(value)


def _quantity(value: ScalarValue) -> Quantity | None:
    if isinstance(value, bool) or value is None:
        return None
    return parse_quantity(str(value))


_NANOSECONDS: Final = _whole(-(2**63), 2**63)
_SCALARS: Final[Mapping[object, tuple[str, _Reading]]] = {
    str: ("string", _only(str)),
    bool: ("bool", _only(bool)),
    Int32: ("int32", _whole(-(2**31), 2**31)),
    UInt32: ("uint32", _whole(0, 2**32)),
    Float32: ("float32", _float),
    Duration: ("duration", _duration),
    Duration | int: ("duration", _duration_or_nanoseconds),
    Quantity: ("quantity", _quantity),
}


# --- unknown names -----------------------------------------------------------------


def _unknown(path: str, node: Node, siblings: Iterable[str]) -> str:
    """The problem of an unknown field, with the one that may have been meant."""
    parent, _, name = path.rpartition(".")
    meant = closest(name, siblings)
    if meant is not None:
        meant = f"{parent}.{meant}" if parent else meant
    else:
        elsewhere = (
            known for known in _paths(KubeProxyConfiguration) if known.endswith(f".{name}")
        )
        meant = next(elsewhere, None)
    hint = f'; did you mean "{meant}"?' if meant else ""
    return f'unknown field "{path}" (line {node.line}{hint})'


def _paths(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The paths of all fields of a structure."""
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        yield path
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _paths(field.type, f"{path}.")
