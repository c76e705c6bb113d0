"""Rules in one form, whichever way they are written: as we do, or as `iptables-save` lists them.

The programs list options in an order of their own, with the masks and defaults that were left
out, and chances as the kernel rounds them. Comments are not compared: they decide about no packet,
and a cluster that has grown large has rules of both kinds, with comments and without.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

Canonical = tuple[str, ...]
"""A rule without its chain: its options with their values, in alphabetical order."""

_COMMENT: Final = re.compile(r""" -m comment --comment (?:"(?:[^"\\]|\\.)*"|'[^']*'|\S+)""")
_CHANCES: Final = 1 << 31  # what the kernel counts probabilities in
_ALL_BITS: Final = 0xFFFFFFFF

# What says nothing: matches that their protocol implies, and what the programs add of their own.
_IMPLIED: Final = frozenset(
    {
        "-m tcp",
        "-m udp",
        "-m sctp",
        "--reject-with icmp-port-unreachable",
        "--reject-with icmp6-port-unreachable",
        "--mask 255.255.255.255",
        "--mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "--rsource",
    }
)


def canonical(line: str) -> Canonical:
    """A rule, which is a line `-A CHAIN ...`."""
    words = _COMMENT.sub("", line).split()[2:]
    return tuple(sorted(option for option in _options(words) if option not in _IMPLIED))


def _options(words: list[str]) -> Iterator[str]:
    """Options, each with its values; an exclamation mark stands before what it negates."""
    start = 0
    for at in range(1, len(words) + 1):
        if at < len(words) and not _begins(words, at):
            continue
        name, values = start, words[start + 1 : at]
        negated = ""
        if words[name] == "!":
            negated, name, values = "! ", start + 1, words[start + 2 : at]
        rewrite = _REWRITE.get(words[name], _as_it_is)
        yield negated + rewrite(words[name], " ".join(values))
        start = at


def _begins(words: list[str], at: int) -> bool:
    """Whether an option begins here: a negated one does with its exclamation mark."""
    word = words[at]
    return word == "!" or (word.startswith("-") and words[at - 1] != "!")


def _as_it_is(name: str, value: str) -> str:
    return f"{name} {value}" if value else name


def _address(name: str, value: str) -> str:
    return f"{name} {value.removesuffix('/32').removesuffix('/128')}"


def _probability(name: str, value: str) -> str:
    return f"{name} {round(float(value) * _CHANCES)}"


def _list(name: str, value: str) -> str:
    return f"{name} {','.join(sorted(value.split(',')))}"


def _mark(name: str, value: str) -> str:
    mark, _, mask = value.partition("/")
    return f"{name} {int(mark, 16):#x}/{int(mask, 16) if mask else _ALL_BITS:#x}"


def _or_mark(_: str, value: str) -> str:
    return _mark("--set-xmark", f"{value}/{value}")


def _xor_mark(_: str, value: str) -> str:
    return _mark("--set-xmark", f"{value}/0x0")


_REWRITE: Final[Mapping[str, Callable[[str, str], str]]] = {
    "-s": _address,
    "-d": _address,
    "--probability": _probability,
    "--ctstate": _list,
    "--mark": _mark,
    "--set-xmark": _mark,
    "--or-mark": _or_mark,
    "--xor-mark": _xor_mark,
}
