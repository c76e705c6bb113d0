"""What a word of a command line may become: a command, a flag, a value, the name of a Service."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from kubeproxy.config.flagset import Flag, visible
from kubeproxy.config.gates import GATE_NAMES
from kubeproxy.dataplane.modes import MODES

FILES: Final = ":files"
"""The answer that asks the shell for names of files."""
SHELLS: Final = ("bash", "zsh", "fish")

_BOOLEAN: Final = ("true", "false")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "output": ("text", "json", "wide", "name", "yaml"),
    "sort": ("name", "connections", "rate"),
    "family": ("IPv4", "IPv6"),
    "hide": ("names", "addresses", "names,addresses"),
    "mode": tuple(MODES),
    "proxy-mode": tuple(MODES),
    "version": ("true", "raw"),
    "feature-gates": tuple(f"{name}={word}" for name in GATE_NAMES for word in _BOOLEAN),
    "detect-local-mode": ("ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"),
    "nodeport-addresses": ("primary", "localhost", "all"),
    "logging-format": ("text", "json"),
    "nftables-balance": ("random", "round-robin", "source-hash"),
    "nftables-healing": ("none", "all", "retryRefused", "retryUnanswered", "resetGone", "eject"),
    "traffic-metrics": ("frontend", "service", "none"),
    "rules-page": ("local", "all", "none"),
    "status-page": ("local", "all", "none"),
}
_PATHS: Final = frozenset(
    {"config", "file", "filename", "kubeconfig", "manifests", "rules", "socket"}
    | {"status-socket", "write-config-to"}
)
_SERVICES: Final = frozenset({"to"})
_NAMESPACES: Final = frozenset({"namespace"})


class Word(NamedTuple):
    """A word that may stand there, and what it is."""

    text: str
    about: str = ""


class CommandLine(msgspec.Struct, frozen=True):
    """A command, and what was typed behind its name; the last word is not finished.

    `positional` is what its arguments are: words, or None for names of Services.
    """

    flags: Sequence[Flag]
    words: Sequence[str]
    positional: Sequence[Word] | None = ()


Names = Callable[[Mapping[str, str], str], Iterable[str]]
"""Services as NAMESPACE/NAME whose name has a text, from the daemon that given flags name."""


def candidates(line: CommandLine, names: Names) -> list[Word]:
    """What the last word may become; `FILES` alone is any file."""
    *before, typed = line.words
    given, waiting, ended = _read(line.flags, before)
    if waiting is not None:
        found = _values(waiting, typed, given, names)
    elif ended or not typed.startswith("-"):
        found = _arguments(line, typed, given, names)
    elif "=" in typed:
        head, _, text = typed.partition("=")
        flag = _flag(line.flags, head)
        values = _values(flag, text, given, names) if flag else ()
        found = (word if word.text == FILES else Word(f"{head}={word.text}") for word in values)
    else:
        found = _flags(line.flags)
    return [word for word in found if word.text.startswith(typed) or word.text == FILES]


def _read(flags: Sequence[Flag], words: Iterable[str]) -> tuple[dict[str, str], Flag | None, bool]:
    """The flags that were given, the one whose value comes next, whether `--` ended the flags."""
    given: dict[str, str] = {}
    waiting: Flag | None = None
    for word in words:
        if waiting is not None:
            given[waiting.name], waiting = word, None
        elif word == "--":
            return given, None, True
        elif word.startswith("-"):
            head, equals, text = word.partition("=")
            flag = _flag(flags, head)
            if flag is not None and equals:
                given[flag.name] = text
            elif flag is not None and flag.kind.bare is None:
                waiting = flag
    return given, waiting, False


def _flag(flags: Sequence[Flag], head: str) -> Flag | None:
    """The flag that `--name` or `-n` means."""
    for flag in flags:
        if head == f"--{flag.name}" or (flag.shorthand and head == f"-{flag.shorthand}"):
            return flag
    return None


def _flags(flags: Iterable[Flag]) -> Iterator[Word]:
    for flag in flags:
        if visible(flag):
            yield Word(f"--{flag.name}", flag.help.partition(". ")[0].partition("\n")[0])


def _values(flag: Flag, typed: str, given: Mapping[str, str], names: Names) -> Iterable[Word]:
    """What the value of a flag may be, as far as that is known."""
    if flag.name in _PATHS:
        return [Word(FILES)]
    if flag.name in _SERVICES:
        return _services(typed, given, names)
    if flag.name in _NAMESPACES:
        found = sorted({name.partition("/")[0] for name in names(given, "")})
        return map(Word, found)
    return map(Word, _WORDS.get(flag.name, _BOOLEAN if flag.kind.bare == "true" else ()))


def _arguments(
    line: CommandLine, typed: str, given: Mapping[str, str], names: Names
) -> Iterable[Word]:
    return _services(typed, given, names) if line.positional is None else line.positional


def _services(typed: str, given: Mapping[str, str], names: Names) -> Iterator[Word]:
    """Services with their namespace; without it where that is given, or what was typed fits."""
    found = sorted(names(given, typed))
    inside = given.get("namespace", "")
    whole = [name for name in found if name.startswith(typed)]
    if whole and not inside:
        yield from map(Word, whole)
        return
    for name in found:
        namespace, _, bare = name.partition("/")
        if inside in {"", namespace}:
            yield Word(bare, namespace)
