"""YAML as the tools of Kubernetes read it, within bounds. No I/O; free to be imported by all.

Scalars mean what they mean to kubectl: a time stays a text, and so does `1:2:3:4:5:6:7:8`, which
YAML 1.1 would read as a number to the base of 60.

A short text can ask for much: an alias of some bytes stands for all that its anchor names, or for
itself; the reader in C runs out of its stack on what is nested deeply, which ends the process
without a word; a decimal number takes time with the square of its length. Such a text is refused
before anything is made of it. Every failure is a `yaml.YAMLError`, most with a place.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import yaml

TAG = "tag:yaml.org,2002:"
TOO_DEEP = "it is nested too deeply"

_MAX_DEPTH = 200
_FREE_NODES = 100_000  # that aliases may add to any text
_MAX_GROWTH = 10  # times the nodes of a large text
_LONG_NUMBER = re.compile(r"[-+.:_eE0-9]{401,}")
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|\.inf|\.Inf|\.INF)$|\.(?:nan|NaN|NAN)$"
)


class Loader(yaml.CSafeLoader):
    """The safe loader in C, with kubectl's idea of what an unquoted text means."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in (f"{TAG}bool", f"{TAG}null")]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(f"{TAG}int", _INT, list("-+0123456789"))
Loader.add_implicit_resolver(f"{TAG}float", _FLOAT, list("-+0123456789."))
Loader.add_implicit_resolver(f"{TAG}merge", re.compile(r"<<$"), ["<"])


def load(text: str) -> object:
    """What the only document of a text stands for; None when it is empty."""
    check_bounds(text)
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        return None if node is None else construct(loader, node)
    finally:
        loader.dispose()


def construct(loader: Loader, node: yaml.Node) -> Any:
    """What a document stands for."""
    try:
        return loader.construct_document(node)
    except yaml.YAMLError:
        raise
    except Exception as error:  # PyYAML's own, such as a KeyError for `!!bool maybe`
        reason = f"a value cannot be read: {type(error).__name__}: {error}"
        raise _refusal(reason, node) from error


def check_bounds(text: str) -> None:
    """Raise `yaml.MarkedYAMLError` for a text that asks for more than its size lets expect."""
    aliases = _Aliases()
    depth = 0
    for event in _events(text):
        match event:
            case yaml.AliasEvent():
                aliases.used(event)
            case yaml.ScalarEvent():
                aliases.begun(event.anchor)
                aliases.ended()
                if _is_long_number(event):
                    reason = f"a number of {len(event.value)} characters is too large"
                    raise _refusal(reason, event)
            case yaml.CollectionStartEvent():
                depth += 1
                if depth > _MAX_DEPTH:
                    raise _refusal(TOO_DEEP, event)
                aliases.begun(event.anchor)
            case yaml.CollectionEndEvent():
                depth -= 1
                aliases.ended()
            case _:
                pass


def _events(text: str) -> Iterator[yaml.Event]:
    """The events up to where the text cannot be read: who makes nodes of it says why."""
    with contextlib.suppress(yaml.YAMLError):
        yield from yaml.parse(text, Loader=yaml.CSafeLoader)


class _Aliases:
    """Counts the nodes of a text as they are written, and as they are with aliases resolved."""

    def __init__(self) -> None:
        self._written = self._resolved = 0
        self._open: list[tuple[str | None, int]] = []
        self._sizes: dict[str | None, int] = {}

    def begun(self, anchor: str | None) -> None:
        """A node begins."""
        self._open.append((anchor, self._resolved))
        self._written += 1
        self._resolved += 1

    def ended(self) -> None:
        """The node that began last ends."""
        anchor, before = self._open.pop()
        self._sizes[anchor] = self._resolved - before

    def used(self, alias: yaml.AliasEvent) -> None:
        """An alias stands for what its anchor names."""
        if any(anchor == alias.anchor for anchor, _ in self._open):
            raise _refusal(f"the alias *{alias.anchor} is part of itself", alias)
        self._written += 1
        self._resolved += self._sizes.get(alias.anchor, 1)  # an unknown one is refused later
        if self._resolved > _FREE_NODES + _MAX_GROWTH * self._written:
            raise _refusal("its aliases make it too large", alias)


def _is_long_number(event: yaml.ScalarEvent) -> bool:
    is_number = not event.style or event.tag in (f"{TAG}int", f"{TAG}float")
    return is_number and _LONG_NUMBER.fullmatch(event.value) is not None


def _refusal(reason: str, at: yaml.Event | yaml.Node) -> yaml.MarkedYAMLError:
    mark: Any = at.start_mark  # of the reader in C, which the stubs do not know
    return yaml.MarkedYAMLError(problem=reason, problem_mark=mark)
