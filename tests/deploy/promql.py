"""A subset of PromQL: which series an expression reads, and which labels it uses."""

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<duration>\[[^\]]*\])
    | (?P<word>[A-Za-z_:][A-Za-z0-9_:]*)
    | (?P<number>[0-9.]+)
    | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){},])
    """,
    re.VERBOSE,
)
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_OPERATORS = {"and", "or", "unless", "bool", "offset"}


class Read(NamedTuple):
    """The series of one name, and the labels by which they are chosen."""

    metric: str
    labels: frozenset[str]


class Uses(NamedTuple):
    """All that an expression speaks of. `grouped` is None where nothing is grouped."""

    reads: tuple[Read, ...]
    functions: frozenset[str]
    grouped: frozenset[str] | None


def uses(expression: str) -> Uses:
    """Take an expression apart; a text that is none of this language's is an error."""
    tokens = _tokens(expression)
    reads: list[Read] = []
    functions: set[str] = set()
    groups: list[frozenset[str]] = []
    place = 0
    while place < len(tokens):
        kind, text = tokens[place]
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        place += 1
        if kind != "word" or text in _OPERATORS:
            continue
        if text in _GROUPING:
            labels, place = _words_until(tokens, place + 1, ")")
            groups.append(labels)
        elif following == "(" or following in _GROUPING:
            functions.add(text)
        elif following == "{":
            labels, place = _words_until(tokens, place + 1, "}")
            reads.append(Read(text, labels))
        else:
            reads.append(Read(text, frozenset()))
    grouped = frozenset[str]().union(*groups) if groups else None
    return Uses(tuple(reads), frozenset(functions), grouped)


def _tokens(expression: str) -> list[tuple[str, str]]:
    found = []
    place = 0
    text = expression.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, f"what is {text[place:]!r}?"
        assert match.lastgroup is not None
        found.append((match.lastgroup, match[0]))
        place = match.end()
        while place < len(text) and text[place].isspace():
            place += 1
    return found


def _words_until(
    tokens: list[tuple[str, str]], place: int, end: str
) -> tuple[frozenset[str], int]:
    """The words up to a sign, and the place after it."""
    stop = next(n for n in range(place, len(tokens)) if tokens[n][1] == end)
    return frozenset(text for kind, text in tokens[place:stop] if kind == "word"), stop + 1
