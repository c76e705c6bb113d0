"""Text of a manifest -> the documents in it: YAML or JSON, lists taken apart. No I/O.

The text may be what people write or what `kubectl get -o yaml` and `-o json` print. A key that is
given twice is refused, because one of the two is a mistake that nobody would see.
"""

import json
import re
from collections.abc import Iterator

import msgspec
import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.kubeyaml import TAG, TOO_DEEP, Loader, check_bounds, construct

Body = dict[str, object]


class BrokenManifest(OperatorError):
    """A manifest that cannot be understood, with the place and the reason."""

    def __init__(self, file: str, line: int, column: int, reason: str) -> None:
        super().__init__(f"{file}:{line}:{column}: {reason}")
        self.file = file
        self.line = line
        self.column = column
        self.reason = reason


class Document(msgspec.Struct, frozen=True):
    """One object of a manifest, of whatever kind."""

    kind: str
    api_version: str
    body: Body
    line: int
    """Where it begins, counted from 1; inside of a JSON list, where the list begins."""
    file: str = ""


def parse(text: str, file: str = "") -> list[Document]:
    """The documents in a text; raises `BrokenManifest` when any of it cannot be understood."""
    if file.endswith(".json"):
        return list(_parse_json(text, file))
    if text.lstrip().startswith("{"):
        try:
            return list(_parse_json(text, file))
        except BrokenManifest:
            pass  # `{kind: Service}` is YAML
    return list(_parse_yaml(text, file))


# --- JSON -------------------------------------------------------------------------------------


_LONGEST_NUMBER = 400  # digits: reading one takes time with the square of their count
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _RepeatedKeyError(Exception):
    pass


class _UnreadableError(Exception):
    """A value of JSON that Python could read, and nobody could use."""


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> Body:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise _RepeatedKeyError
    return body


def _whole_number(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise _UnreadableError(f"a number of {len(digits)} digits is too large")
    return int(digits)


def _refuse_half_characters(value: object) -> None:
    """Half of a surrogate pair is no text: it cannot be written anywhere."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        reason = f"a text has {error.object[error.start]!a}, which is half of a character"
        raise _UnreadableError(reason) from error


_json_decoder = json.JSONDecoder(object_pairs_hook=_refuse_repeated_keys, parse_int=_whole_number)
_not_space = re.compile(r"\S")


def _parse_json(text: str, file: str) -> Iterator[Document]:
    """The documents of one or several JSON values that follow each other."""
    begin = _not_space.search(text)
    is_suspect = _SURROGATE.search(text) is not None
    while begin is not None:
        line = text.count("\n", 0, begin.start()) + 1
        try:
            value, end = _json_decoder.raw_decode(text, begin.start())
            if is_suspect:
                _refuse_half_characters(value)
        except json.JSONDecodeError as error:
            raise BrokenManifest(file, error.lineno, error.colno, error.msg) from error
        except RecursionError as error:
            raise BrokenManifest(file, line, 1, TOO_DEEP) from error
        except _UnreadableError as error:
            raise BrokenManifest(file, line, 1, str(error)) from error
        except _RepeatedKeyError:
            # JSON is YAML too, and that reader knows the line of every key.
            return (yield from _parse_yaml(text, file))
        yield from _flatten_json(value, Document("", "", {}, line, file))
        begin = _not_space.search(text, end)


def _flatten_json(value: object, around: Document) -> Iterator[Document]:
    """A value, or the items of a list; kind and version may come from the list around it."""
    if not isinstance(value, dict):
        raise BrokenManifest(around.file, around.line, 1, _NO_OBJECT)
    kind, version = value.get("kind") or around.kind, value.get("apiVersion") or around.api_version
    items = value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        inner = Document(kind.removesuffix("List"), str(version), {}, around.line, around.file)
        for item in items:
            yield from _flatten_json(item, inner)
        return
    yield _document(value, (kind, version), (around.file, around.line, 1))


# --- YAML -------------------------------------------------------------------------------------


def _parse_yaml(text: str, file: str) -> Iterator[Document]:
    try:
        check_bounds(text)
        loader = Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None  # noqa: S101  # check_node has just said so
                _check_repeated_keys(node, file)
                yield from _flatten_yaml(loader, node, Document("", "", {}, 1, file))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise BrokenManifest(file, line, column, reason) from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        reason = f"the character {error.character!r} is not allowed"
        raise BrokenManifest(file, line, column, reason) from error


def _check_repeated_keys(root: Node, file: str) -> None:
    """Refuse a key that stands twice in one mapping; merged keys may be overridden."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, MappingNode):
            lines: dict[str, int] = {}
            for key, value in node.value:
                waiting.append(value)
                if not isinstance(key, ScalarNode) or key.tag == f"{TAG}merge":
                    continue
                line, column = key.start_mark.line + 1, key.start_mark.column + 1
                if key.value in lines:
                    reason = f"the key {key.value!r} stands in line {lines[key.value]} already"
                    raise BrokenManifest(file, line, column, reason)
                lines[key.value] = line


def _flatten_yaml(loader: Loader, node: Node, around: Document) -> Iterator[Document]:
    """A document, or the items of a list; kind and version may come from the list around it."""
    if isinstance(node, ScalarNode) and node.tag == f"{TAG}null":
        return
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    if not isinstance(node, MappingNode):
        raise BrokenManifest(around.file, line, column, _NO_OBJECT)
    fields = {key.value: value for key, value in node.value if isinstance(key, ScalarNode)}
    kind = _text(fields.get("kind")) or around.kind
    version = _text(fields.get("apiVersion")) or around.api_version
    items = fields.get("items")
    if kind.endswith("List") and isinstance(items, SequenceNode):
        inner = Document(kind.removesuffix("List"), version, {}, line, around.file)
        for item in items.value:
            yield from _flatten_yaml(loader, item, inner)
        return
    body = construct(loader, node)
    yield _document(body, (kind, version), (around.file, line, column))


def _text(node: Node | None) -> str:
    return node.value if isinstance(node, ScalarNode) and node.tag == f"{TAG}str" else ""


# --- both -------------------------------------------------------------------------------------

_NO_OBJECT = "a document must be an object with apiVersion and kind"


def _document(body: Body, named: tuple[object, object], place: tuple[str, int, int]) -> Document:
    kind, version = named
    file, line, column = place
    if not isinstance(kind, str) or not kind:
        raise BrokenManifest(file, line, column, "kind is missing")
    if not isinstance(version, str) or not version:
        raise BrokenManifest(file, line, column, f"the {kind} has no apiVersion")
    return Document(kind, version, body, line, file)
