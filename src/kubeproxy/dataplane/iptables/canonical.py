"""Rules in one form, whichever way they are written: as we do, or as `iptables-save` lists them.

The programs list options in an order of their own, with the masks and defaults that were left
out, and chances as the kernel rounds them. Comments are not compared: they decide about no packet,
and a cluster that has grown large has rules of both kinds, with comments and without.
"""

import re
from typing import Final

Canonical = tuple[str, ...]
"""A rule without its chain: its options with their values, in alphabetical order."""

_COMMENT: Final = re.compile(r""" -m comment --comment (?:"(?:[^"\\]|\\.)*"|'[^']*'|\S+)""")
_OPTION: Final = re.compile(r"(?<!!) (?=-|! )")
"""Where an option begins: a negated one does with its exclamation mark."""
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
        "",  # of a rule without options
    }
)


def canonical(line: str) -> Canonical:
    """A rule, which is a line `-A CHAIN ...`."""
    words = _COMMENT.sub("", line).split()[2:]
    options = map(_rewritten, _OPTION.split(" ".join(words)))
    return tuple(sorted(option for option in options if option not in _IMPLIED))


def _rewritten(option: str) -> str:
    """An option, with its values and perhaps negated, in the one form of it."""
    negated = "! " if option.startswith("! ") else ""
    name, _, value = option.removeprefix("! ").partition(" ")
    if name == "--or-mark":
        name, value = "--set-xmark", f"{value}/{value}"
    elif name == "--xor-mark":
        name, value = "--set-xmark", f"{value}/0x0"
    match name:
        case "-s" | "-d":
            value = value.removesuffix("/32").removesuffix("/128")
        case "--probability":
            value = str(round(float(value) * _CHANCES))
        case "--ctstate":
            value = ",".join(sorted(value.split(",")))
        case "--mark" | "--set-xmark":
            mark, _, mask = value.partition("/")
            value = f"{int(mark, 16):#x}/{int(mask, 16) if mask else _ALL_BITS:#x}"
    return f"{negated}{name} {value}" if value else negated + name
