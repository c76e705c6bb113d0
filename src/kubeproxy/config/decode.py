"""The text of a config file to a configuration: strict, and with all problems at once.

A field that is not read is a mistake that goes unnoticed, so an unknown or misspelled field, and
one with two values, is an error here (upstream logs a line and goes on); `null` counts as absent.

A file may hold the configurations of several components, as those for kubeadm do. Ours is found by
its kind, in any place; upstream reads the first document only, whatever it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import replace

from kubeproxy.base import gotext
from kubeproxy.base.kubeyaml import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    TextError,
    documents,
)
from kubeproxy.config.errors import ConfigError, Level, Notice, ValueTextError, closest, joined
from kubeproxy.config.removed import REMOVED_FIELDS
from kubeproxy.config.types import (
    API_VERSION,
    KIND,
    Int32,
    Int64,
    KubeProxyConfiguration,
    UInt32,
)
from kubeproxy.config.values import Duration, Quantity, parse_duration, parse_quantity

T = TypeVar("T", bound=msgspec.Struct)

# The kind of document, which is checked before its fields are read.
_TYPE_META: Final = frozenset({"apiVersion", "kind"})


class _Document(msgspec.Struct, frozen=True):
    """A document with its kind and version; "" where they are missing."""

    root: Node
    kind: str
    version: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a configuration of kube-proxy."""
        return (self.kind, self.version) == (KIND, API_VERSION)

    def __str__(self) -> str:
        return f"{self.kind or 'no kind'} (line {self.root.line})"


def decode(text: str) -> tuple[KubeProxyConfiguration, list[Notice]]:
    """The configuration in a YAML or JSON text, before defaulting, and notices about it."""
    found: list[_Document] = []
    broken: TextError | None = None
    try:
        for root in documents(text):
            found.append(_identified(root))  # noqa: PERF401  # those before an error count
    except TextError as error:
        broken = error
    ours = next((each.root for each in found if each.is_ours), None)
    if not isinstance(ours, MappingNode):
        raise ConfigError(f"failed to decode: {broken or _why_none(found, text)}")
    place = _Place("", [], list(_about_rest(found, broken)))
    config = _struct(ours, KubeProxyConfiguration, place)
    if place.problems:
        raise ConfigError(f"failed to decode: {joined(place.problems)}")
    return config, place.notices


def _identified(root: Node) -> _Document:
    """A document with its kind and version, if these are strings."""
    texts = {
        key.text: value.value
        for key, value in (root.pairs if isinstance(root, MappingNode) else ())
        if isinstance(key, ScalarNode)
        and isinstance(value, ScalarNode)
        and isinstance(value.value, str)
    }
    return _Document(root, texts.get("kind", ""), texts.get("apiVersion", ""))


def _about_rest(found: list[_Document], broken: TextError | None) -> Iterator[Notice]:
    """Notices about a file that has more than one document."""
    others = [document for document in found if not document.is_ours]
    if others:
        # Without a kind, or with ours in another version, it may have been meant for us.
        is_suspect = any(document.kind in ("", KIND) for document in others)
        level = Level.WARNING if is_suspect else Level.INFO
        message = "The config file has documents that are not for kube-proxy; they are skipped"
        yield Notice(level, message, {"documents": list(map(str, others))})
    _, *more = [str(document) for document in found if document.is_ours]
    if more:
        message = "The config file has several documents for kube-proxy; only the first is used"
        yield Notice(Level.WARNING, message, {"skipped": more})
    if broken is not None:
        message = "The config file cannot be read to its end, after the document for kube-proxy"
        yield Notice(Level.WARNING, message, {"err": f"failed to decode: {broken}"})


def _why_none(found: list[_Document], text: str) -> str:
    """Why no document is ours; for a single one it is upstream's text."""
    expected = f"kind {gotext.quote(KIND)} of version {gotext.quote(API_VERSION)}"
    if len(found) > 1:
        listed = ", ".join(map(str, found))
        return f"none of the documents is of {expected}; found {listed}"
    for document in found:
        if document.kind and document.version:
            return (
                f"no kind {gotext.quote(document.kind)} is registered for version"
                f" {gotext.quote(document.version)}; expected {expected}"
            )
        if document.kind:
            return f"Object 'apiVersion' is missing in '{text}'"
    return f"Object 'Kind' is missing in '{text}'"


# --- fields -----------------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """A place in the document; the lists are those of the whole, and grow while it is read."""

    path: str
    problems: list[str]
    notices: list[Notice]

    def child(self, name: str) -> "_Place":
        """The place of a field."""
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def warn(self, message: str, **pairs: object) -> None:
        """Add a notice about the field."""
        self.notices.append(Notice(Level.WARNING, message, {"field": self.path, **pairs}))

    def wrong(self, node: Node, kind: object) -> None:
        """Add the problem that the node is not of the type."""
        self.problems.append(
            f'cannot unmarshal {_name_of(node)} into field "{self.path}" of type'
            f" {_type_name(kind)} (line {node.line})"
        )


def _struct(node: MappingNode, struct: type[T], place: _Place) -> T:
    """The structure that a mapping describes; what is absent or null keeps its default."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}

    def read(name: str, value: Node) -> object:
        field, inner = fields.get(name), place.child(name)
        removed = REMOVED_FIELDS.get(inner.path)
        if removed and not (isinstance(value, ScalarNode) and value.value in (None, "")):
            inner.warn(
                "Config field has no effect: what it set was removed from Kubernetes",
                line=value.line,
                removedIn=removed[0],
                instead=removed[1],
            )
        if field is not None:
            return _value(value, field.type, inner)
        if not place.path and name in _TYPE_META:
            return _value(value, str, inner)
        if not removed:
            place.problems.append(_unknown(inner.path, value, fields))
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
            place.problems.append(f"a key is no string (line {key.line})")
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
            place.problems.append(f'duplicate field "{inner.path}" ({where})')
    return values


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
            return tuple(
                _item(item, get_args(kind)[0], replace(place, path=f"{place.path}[{index}]"))
                for index, item in enumerate(node.items)
            )
        case _:
            place.wrong(node, kind)
            return None


def _item(node: Node, kind: object, place: _Place) -> object:
    """An element of a list or of a map, which has no default to fall back to: null is wrong."""
    if isinstance(node, ScalarNode) and node.value is None:
        place.wrong(node, kind)
    return _value(node, kind, place)


def _type_name(kind: object) -> str:
    """The name of a type in error texts."""
    if kind in _SCALARS:
        return _SCALARS[kind]
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

_SCALARS: Final[Mapping[object, str]] = {
    str: "string",
    bool: "bool",
    Int32: "int32",
    UInt32: "uint32",
    float: "float32",
    Duration: "duration",
    Duration | Int64: "duration",
    Quantity: "quantity",
}
"""The types of scalars, with their names in error texts."""


def _scalar(node: ScalarNode, kind: object, place: _Place) -> object:
    """The value of a scalar; None when it is wrong."""
    value = node.value
    try:
        if kind is Quantity and not isinstance(value, bool):
            return parse_quantity(str(value))
        if isinstance(value, str) and kind in (Duration, Duration | Int64):
            return parse_duration(value)
        return msgspec.convert(value, kind)
    except ValueTextError as error:
        place.problems.append(f'field "{place.path}": {error} (line {node.line})')
    except msgspec.ValidationError:
        place.wrong(node, kind)
    return None


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
