"""YAML nodes to the fields of a structure, by their types; remarks are collected with paths."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, get_args, get_origin

import msgspec
import yaml

from kubeproxy.config.duration import Duration, parse_duration
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.notice import Level, Notice
from kubeproxy.config.quantity import Quantity, parse_quantity
from kubeproxy.config.removed import REMOVED_FIELDS, Removed
from kubeproxy.config.scalar import Scalar, line_of, name_of, scalar
from kubeproxy.config.suggest import closest
from kubeproxy.config.types import Float32, Int32, KubeProxyConfiguration, UInt32

T = TypeVar("T", bound=msgspec.Struct)

# What says the kind of document, and is checked before its fields are read.
_TYPE_META: Final = frozenset({"apiVersion", "kind"})


class Remarks(msgspec.Struct, frozen=True):
    """What is wrong with a document, and what is odd but no error; both grow in the reading."""

    problems: list[str]
    notices: list[Notice]


class _Place(msgspec.Struct, frozen=True):
    """Where in the document we are, and where remarks go."""

    path: str
    remarks: Remarks

    def child(self, name: str) -> "_Place":
        """The place of a field."""
        return _Place(f"{self.path}.{name}" if self.path else name, self.remarks)

    def item(self, index: int) -> "_Place":
        """The place of an element of a list."""
        return _Place(f"{self.path}[{index}]", self.remarks)

    def problem(self, text: str) -> None:
        """Note what is wrong."""
        self.remarks.problems.append(text)

    def warn(self, message: str, **pairs: object) -> None:
        """Note what is odd about the field."""
        notice = Notice(Level.WARNING, message, {"field": self.path, **pairs})
        self.remarks.notices.append(notice)

    def wrong(self, node: yaml.Node, type_name: str) -> None:
        """Note that the node is not of the type."""
        self.problem(
            f'cannot unmarshal {name_of(node)} into field "{self.path}" of type {type_name}'
            f" (line {line_of(node)})"
        )


def read_struct(node: yaml.MappingNode, struct: type[T], remarks: Remarks) -> T:
    """The structure that a mapping describes; what is absent or null keeps its default."""
    return _struct(node, struct, _Place("", remarks))


def _struct(node: yaml.MappingNode, struct: type[T], place: _Place) -> T:
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}

    def read(name: str, value: yaml.Node) -> object:
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
    node: yaml.MappingNode, place: _Place, read: Callable[[str, yaml.Node], object]
) -> dict[str, object]:
    """The fields of a mapping, each as it is read.

    A second one of the same name that says the same, as in files put together from parts, is odd;
    one that says something else is a problem: nobody knows which is meant.
    """
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key, node_of_value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            place.problem(f"a key is no string (line {line_of(key)})")
            continue
        name, line, inner = key.value, line_of(key), place.child(key.value)
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


def _warn_of_removed(removed: Removed, node: yaml.Node, place: _Place) -> None:
    """Say that the field has no effect, unless it asks for nothing."""
    if not (isinstance(node, yaml.ScalarNode) and scalar(node) in (None, "")):
        place.warn(
            "Config field has no effect: what it set was removed from Kubernetes",
            line=line_of(node),
            removedIn=removed.release,
            instead=removed.instead,
        )


def _value(node: yaml.Node, kind: object, place: _Place) -> object:
    """The value of a field; None when it is null or wrong, which leaves the default."""
    match node:
        case yaml.ScalarNode() if scalar(node) is None:
            return None
        case yaml.ScalarNode() if kind in _SCALARS:
            return _scalar(node, _SCALARS[kind], place)
        case yaml.MappingNode() if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _struct(node, kind, place)
        case yaml.MappingNode() if get_origin(kind) is Mapping:
            return _entries(node, place, lambda key, at: _item(at, bool, place.child(key)))
        case yaml.SequenceNode() if get_origin(kind) is tuple:
            items = enumerate(node.value)
            return tuple(_item(item, get_args(kind)[0], place.item(i)) for i, item in items)
        case _:
            place.wrong(node, _type_name(kind))
            return None


def _item(node: yaml.Node, kind: object, place: _Place) -> object:
    """An element of a list or of a map, which has no default to fall back to: null is wrong."""
    if isinstance(node, yaml.ScalarNode) and scalar(node) is None:
        place.wrong(node, _type_name(kind))
    return _value(node, kind, place)


def _type_name(kind: object) -> str:
    """A type in the words of the error texts."""
    if kind in _SCALARS:
        return _SCALARS[kind].name
    if get_origin(kind) is Mapping:
        return "map[string]bool"
    if get_origin(kind) is tuple:
        return f"[]{_type_name(get_args(kind)[0])}"
    return "object"


# --- scalars ----------------------------------------------------------------------------------


class _Kind(msgspec.Struct, frozen=True):
    """A type of scalar: its name in errors, and the reading, which gives None when it is wrong."""

    name: str
    read: Callable[[Scalar], object]


def _scalar(node: yaml.ScalarNode, kind: _Kind, place: _Place) -> object:
    """A scalar of the kind."""
    try:
        value = kind.read(scalar(node))
    except ValueTextError as error:
        place.problem(f'field "{place.path}": {error} (line {line_of(node)})')
        return None
    if value is None:
        place.wrong(node, kind.name)
    return value


def _string(value: Scalar) -> str | None:
    return value if isinstance(value, str) else None


def _bool(value: Scalar) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(low: int, high: int) -> Callable[[Scalar], int | None]:
    """Whole numbers from low up to and without high, also as templates write large ones: 1e+06."""

    def read(value: Scalar) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return value if low <= value < high else None

    return read


def _float(value: Scalar) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all of them
        return None


def _duration(value: Scalar) -> Duration | None:
    return parse_duration(value) if isinstance(value, str) else None


def _duration_or_nanoseconds(value: Scalar) -> Duration | int | None:
    return _duration(value) if isinstance(value, str) else _NANOSECONDS(value)


def _quantity(value: Scalar) -> Quantity | None:
    if isinstance(value, bool) or value is None:
        return None
    return parse_quantity(str(value))


_NANOSECONDS: Final = _whole(-(2**63), 2**63)
_SCALARS: Final[Mapping[object, _Kind]] = {
    str: _Kind("string", _string),
    bool: _Kind("bool", _bool),
    Int32: _Kind("int32", _whole(-(2**31), 2**31)),
    UInt32: _Kind("uint32", _whole(0, 2**32)),
    Float32: _Kind("float32", _float),
    Duration: _Kind("duration", _duration),
    Duration | int: _Kind("duration", _duration_or_nanoseconds),
    Quantity: _Kind("quantity", _quantity),
}


# --- what is said about names -----------------------------------------------------------------


def _unknown(path: str, node: yaml.Node, siblings: Iterable[str]) -> str:
    """That nobody knows the field, and which one may have been meant."""
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
    return f'unknown field "{path}" (line {line_of(node)}{hint})'


def _paths(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[str]:
    """The paths of all fields of a structure."""
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.encode_name}"
        yield path
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _paths(field.type, f"{path}.")
