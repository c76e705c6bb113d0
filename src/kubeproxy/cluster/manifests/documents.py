"""Text of a manifest -> the documents in it: YAML or JSON, lists taken apart. No I/O.

The text may be what people write or what `kubectl get -o yaml` and `-o json` print. A key that is
set twice is rejected, because one of the two is a mistake that would go unnoticed.
"""

from collections.abc import Iterator

import msgspec

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.kubeyaml import NO_OBJECT, Object, TextError, values

Body = dict[str, object]


class BrokenManifest(OperatorError):
    """A manifest that cannot be read, with the place and the reason."""

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
    """The documents in a text; raises `BrokenManifest` when any of it cannot be read."""
    try:
        roots = values(text, unique=True, json_only=file.endswith(".json"))
        return [document for root in roots for document in _flatten(root, _Around(file))]
    except TextError as error:
        raise BrokenManifest(file, error.line, error.column, error.reason) from error


class _Around(msgspec.Struct, frozen=True):
    """The list around an object; its items may leave kind and version to it."""

    file: str
    kind: object = ""
    api_version: object = ""
    line: int = 1
    column: int = 1


def _flatten(value: object, around: _Around) -> Iterator[Document]:
    """The object, or those of a list."""
    if value is None:
        return
    line, column = around.line, around.column
    if isinstance(value, Object):
        line, column = value.line, value.column
    if not isinstance(value, dict):
        raise TextError(NO_OBJECT, line, column)
    kind, version = value.get("kind") or around.kind, value.get("apiVersion") or around.api_version
    items = value.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
        inside = _Around(around.file, kind.removesuffix("List"), version, line, column)
        for item in items:
            yield from _flatten(item, inside)
        return
    if not isinstance(kind, str) or not kind:
        raise TextError("kind is missing", line, column)
    if not isinstance(version, str) or not version:
        raise TextError(f"the {kind} has no apiVersion", line, column)
    yield Document(kind, version, value, line, around.file)
