"""YAML and JSON as the tools of Kubernetes read them, within bounds. No I/O.

`documents` turns a text into nodes with their lines, for readers that check every field;
`values` turns it into values of JSON. Unquoted texts mean what they mean to kubectl: `y` is true,
`1e3` and `010` are numbers, while a date and `1:30` are strings.

A short text can ask for much: an alias of a few bytes stands for all that its anchor names, or for
itself; deep nesting exhausts the stack; the time to read a number grows with the square of its
length. Such a text is rejected as soon as that shows.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from kubeproxy.base import gotext
from kubeproxy.base.errors import OperatorError
from kubeproxy.base.printable import quoted

TOO_DEEP: Final = "it is nested too deeply"
NO_OBJECT: Final = "a document must be an object"

_MAX_DEPTH: Final = 200
_FREE_NODES: Final = 100_000  # that aliases may add to any text
_MAX_GROWTH: Final = 10  # times the nodes of a large text
_LONGEST_NUMBER: Final = 400

ScalarValue = bool | int | float | str | None


class TextError(OperatorError):
    """A text that is not YAML or JSON, or asks for too much; with the place, counted from 1."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"yaml: line {line}: {reason}")
        self.reason = reason
        self.line = line
        self.column = column


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A single value, and the text that it was written as."""

    value: ScalarValue
    text: str
    line: int
    column: int
    is_plain: bool = False
    """Whether it has neither quotes nor a tag."""


class SequenceNode(msgspec.Struct, frozen=True):
    """A list."""

    items: list["Node"]
    line: int
    column: int


class MappingNode(msgspec.Struct, frozen=True):
    """Pairs; keys may be of any type and may be repeated."""

    items: list["Node"]
    """Each key is followed by its value."""
    line: int
    column: int

    @property
    def pairs(self) -> Iterator[tuple["Node", "Node"]]:
        """Keys and values."""
        return zip(self.items[::2], self.items[1::2], strict=True)


Node = ScalarNode | SequenceNode | MappingNode


class Object(dict[str, Any]):
    """An object of JSON that knows where it begins in the text."""

    __slots__ = ("column", "line")

    def __init__(self, fields: dict[str, Any], line: int, column: int = 1) -> None:
        super().__init__(fields)
        self.line = line
        self.column = column


# --- scalars ----------------------------------------------------------------------------------

_WORDS: Final = {"": None, "~": None, ".NaN": math.nan} | {
    form: value
    for value, words in (
        (None, ("null",)),
        (True, ("y", "yes", "true", "on")),
        (False, ("n", "no", "false", "off")),
        (math.inf, (".inf", "+.inf")),
        (-math.inf, ("-.inf",)),
        (math.nan, (".nan",)),
    )
    for word in words
    for form in (word, word.title(), word.upper())
}
_INTEGER: Final = re.compile(
    r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WHOLE_BELOW: Final = 1e21
"""Go writes smaller floats without an exponent: where they are whole, they are integers."""


def plain_value(text: str) -> ScalarValue:
    """What a text without quotes means. Raises ValueError for a number that is too long."""
    if text in _WORDS:
        return _WORDS[text]
    return _number(text) if text[0] in "0123456789+-." else text


def _number(text: str) -> ScalarValue:
    """A number in any of YAML's notations, or the text when it is none."""
    digits = text if text.startswith(".") else text.replace("_", "")
    integer = _INTEGER.fullmatch(digits)
    if integer is None and not _FLOAT.fullmatch(digits):
        return text
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} characters is too large")
    if integer is not None:
        sign, number = integer.groups()
        is_octal = number[0] == "0" and number[1:2].isdigit()
        return int(sign + number, 8 if is_octal else 0)
    value = float(digits)
    if math.isinf(value):
        return text
    return int(value) if value.is_integer() and abs(value) < _WHOLE_BELOW else value


_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


def _tagged(text: str, tag: str) -> ScalarValue:
    """The value of a text with an explicit tag; tags of other types are ignored."""
    if tag == "binary":
        return base64.b64decode("".join(text.split()), validate=True).decode()
    if tag not in _TYPES:
        return text
    value = plain_value(text)
    if type(value) not in _TYPES[tag]:
        raise ValueError(f"cannot decode {quoted(text)} as a !!{tag}")
    return value


def _scalar(event: yaml.ScalarEvent) -> ScalarNode:
    text = event.value
    mark: Any = event.start_mark
    is_plain = event.tag is None and event.implicit[0]
    try:
        if is_plain:
            value = plain_value(text)
        else:
            value = _tagged(text, event.tag.removeprefix(_TAG)) if event.tag else text
    except ValueError as error:
        raise _error(str(error), mark) from error
    return ScalarNode(value, text, mark.line + 1, mark.column + 1, is_plain)


# --- nodes ------------------------------------------------------------------------------------


def documents(text: str) -> Iterator[Node]:
    """The documents of a YAML text, without empty ones; raises `TextError` at the first fault."""
    reader = _Reader()
    for event in _events(text):
        match event:
            case yaml.ScalarEvent():
                reader.add(_scalar(event), event.anchor)
            case yaml.AliasEvent():
                reader.add_alias(event)
            case yaml.CollectionStartEvent():
                reader.begin(event)
            case yaml.CollectionEndEvent():
                reader.end()
            case yaml.DocumentEndEvent():
                root = reader.document()
                if not (isinstance(root, ScalarNode) and root.value is None):
                    yield root
            case _:
                pass


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _error(error.problem or "it is not YAML", error.problem_mark) from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        reason = f"the character #x{error.character:04x} is not allowed"
        raise TextError(reason, line, column) from error


def _error(reason: str, mark: Any) -> TextError:
    """An error at a mark of the parser in C, which the stubs do not know."""
    return TextError(reason, mark.line + 1, mark.column + 1)


class _Reader:
    """Makes nodes of events. Counts them as written, and as they are with aliases replaced."""

    def __init__(self) -> None:
        self._written = self._resolved = 0
        self._open: list[tuple[SequenceNode | MappingNode, str | None, int]] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._root: Node | None = None

    def document(self) -> Node:
        """The document that has ended; anchors end with it."""
        root, self._root, self._anchors = self._root, None, {}
        assert root is not None  # noqa: S101  # even an empty document has a node
        return root

    def add(self, node: Node, anchor: str | None = None) -> None:
        """Add a node without children."""
        self._count(1)
        self._place(node)
        if anchor is not None:
            self._anchors[anchor] = (node, 1)

    def add_alias(self, event: yaml.AliasEvent) -> None:
        """Add what an anchor names."""
        name = event.anchor
        if any(anchor == name for _, anchor, _ in self._open):
            raise _error(f"the alias *{name} is part of itself", event.start_mark)
        if name not in self._anchors:
            raise _error(f"unknown anchor '{name}' referenced", event.start_mark)
        node, size = self._anchors[name]
        self._count(size)
        if self._resolved > _FREE_NODES + _MAX_GROWTH * self._written:
            raise _error("its aliases make it too large", event.start_mark)
        self._place(node)

    def begin(self, event: yaml.CollectionStartEvent) -> None:
        """Begin a list or a mapping."""
        mark: Any = event.start_mark
        if len(self._open) == _MAX_DEPTH:
            raise _error(TOO_DEEP, mark)
        kind = MappingNode if isinstance(event, yaml.MappingStartEvent) else SequenceNode
        node = kind([], mark.line + 1, mark.column + 1)
        self._place(node)
        self._open.append((node, event.anchor, self._resolved))
        self._count(1)

    def end(self) -> None:
        """End the list or mapping that began last."""
        node, anchor, before = self._open.pop()
        if anchor is not None:
            self._anchors[anchor] = (node, self._resolved - before)

    def _count(self, resolved: int) -> None:
        self._written += 1
        self._resolved += resolved

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1][0].items.append(node)
        else:
            self._root = node


# --- values -----------------------------------------------------------------------------------


def values(text: str, *, unique: bool = False, json_only: bool = False) -> list[Object]:
    """The documents of a YAML or JSON text as objects of JSON, without empty ones.

    With `unique`, a key that is set twice in one object is an error; else the last one counts.
    """
    if json_only or text.lstrip().startswith("{"):
        try:
            return list(_json_values(text, unique=unique))
        except TextError:
            if json_only:
                raise  # else it may be YAML, or that reader knows the place better
    return [_root(node, unique=unique) for node in documents(text)]


def _root(node: Node, *, unique: bool) -> Object:
    if not isinstance(node, MappingNode):
        raise TextError(NO_OBJECT, node.line, node.column)
    return _object(node, unique=unique)


def _value(node: Node, *, unique: bool) -> object:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [_value(item, unique=unique) for item in node.items]
    return _object(node, unique=unique)


def _object(node: MappingNode, *, unique: bool) -> Object:
    own: dict[str, object] = {}
    merged: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key, item in node.pairs:
        if isinstance(key, ScalarNode) and key.is_plain and key.text == "<<":
            for source in item.items if isinstance(item, SequenceNode) else [item]:
                if not isinstance(source, MappingNode):
                    raise TextError("only mappings can be merged", key.line, key.column)
                merged = _object(source, unique=unique) | merged
            continue
        name = _key(key)
        if unique and name in lines:
            reason = f"key {quoted(name)} is already set in line {lines[name]}"
            raise TextError(reason, key.line, key.column)
        lines[name] = key.line
        own[name] = _value(item, unique=unique)
    return Object(merged | own, node.line, node.column)


def _key(node: Node) -> str:
    """The name of a field; numbers and booleans are written as JSON writes them."""
    match node:
        case ScalarNode(value=str() as name):
            return name
        case ScalarNode(value=bool() as name):
            return "true" if name else "false"
        case ScalarNode(value=int() | float() as name):
            return gotext.number(name)
        case _:
            raise TextError("a key must be a string", node.line, node.column)


# --- JSON -------------------------------------------------------------------------------------

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_SPACE: Final = re.compile(r"\S")


def _json_values(text: str, *, unique: bool) -> Iterator[Object]:
    """The objects of one or several JSON documents that follow each other."""
    hook = _unique_keys if unique else None
    decoder = json.JSONDecoder(object_pairs_hook=hook, parse_int=_integer)
    has_surrogates = _SURROGATE.search(text) is not None
    begin = _NOT_SPACE.search(text)
    while begin is not None:
        line = text.count("\n", 0, begin.start()) + 1
        try:
            value, end = decoder.raw_decode(text, begin.start())
            if has_surrogates:  # half of a pair cannot be written anywhere
                json.dumps(value, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            raise TextError(error.msg, error.lineno, error.colno) from error
        except ValueError as error:
            raise TextError(str(error), line, 1) from error
        except RecursionError as error:
            raise TextError(TOO_DEEP, line, 1) from error
        if not isinstance(value, dict):
            raise TextError(NO_OBJECT, line, 1)
        yield Object(value, line)
        begin = _NOT_SPACE.search(text, end)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"key {quoted(name)} is set twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} characters is too large")
    return int(digits)
