"""Command lines: a table of flags and arguments in, values out.

The rules are pflag's, which operators and charts rely on: `--name value`, `--name=value`, bare
booleans, `-v2`, `-v 2`, `-v=2`, underscores for dashes, flags and arguments in any order, `--`
for the end of flags. The flags of kube-proxy and of its subcommands are tables elsewhere.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kubeproxy.base import gotext
from kubeproxy.config.errors import UsageError, ValueTextError, closest
from kubeproxy.config.kinds import BOOL, FlagKind

T = TypeVar("T")

# Defaults that are left out of the usage text.
_NOTHING: Final = frozenset({"", "0", "0s", "false", "[]"})


class Flag(msgspec.Struct, frozen=True):
    """One flag."""

    name: str
    kind: FlagKind
    default: object
    help: str
    group: str = ""
    """The heading in the usage text."""
    shorthand: str = ""
    field: str = ""
    """The config field that it stands for, as a path of attributes."""
    deprecated: str = ""
    """What to use instead; a deprecated flag is hidden."""
    refused: str = ""
    """Why the flag is known but cannot be used; such a flag is hidden."""


HELP: Final = Flag("help", BOOL, False, "Show this text.", shorthand="h", group="General")


class Parsed(msgspec.Struct, frozen=True):
    """A command line that has been read."""

    values: Mapping[str, object]
    """The value of every flag of the table, given or default."""
    given: frozenset[str]
    positionals: tuple[str, ...]
    deprecations: tuple[str, ...]
    """Lines to show because deprecated flags were used."""

    def value(self, name: str, type_: type[T]) -> T:
        """The value of a flag, which is of that type."""
        value = self.values[name]
        if not isinstance(value, type_):
            raise TypeError(f"--{name} is {type(value).__name__}, not {type_.__name__}")
        return value


def parse(flags: Sequence[Flag], arguments: Sequence[str]) -> Parsed:
    """Read a command line, without the name of the program."""
    given: dict[str, object] = {}
    positionals: list[str] = []
    deprecations: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        if argument == "--":
            positionals.extend(reversed(waiting))
            break
        if len(argument) < 2 or not argument.startswith("-"):
            positionals.append(argument)
            continue
        read = _long if argument.startswith("--") else _short
        for flag, text in read(flags, argument, waiting):
            given[flag.name] = _read(flag, text, given.get(flag.name))
            if flag.deprecated:
                deprecations.append(f"Flag --{flag.name} has been deprecated, {flag.deprecated}")
    values = {flag.name: flag.default for flag in flags} | given
    return Parsed(values, frozenset(given), tuple(positionals), tuple(deprecations))


def _long(flags: Sequence[Flag], argument: str, waiting: list[str]) -> Iterator[tuple[Flag, str]]:
    """`--name`, `--name=value`, `--name value`."""
    typed, equals, text = argument[2:].partition("=")
    if not typed or typed.startswith("-"):
        raise UsageError(f"bad flag syntax: {argument}")
    name = typed.replace("_", "-")
    flag = next((flag for flag in flags if flag.name == name), None)
    if flag is None:
        meant = closest(typed, (known.name for known in flags if visible(known)))
        hint = f" (did you mean --{meant}?)" if meant else ""
        raise UsageError(f"unknown flag: --{typed}{hint}")
    if flag.refused:
        raise UsageError(f"unknown flag: --{typed}: {flag.refused}")
    if equals:
        yield flag, text
    elif flag.kind.bare is not None:
        yield flag, flag.kind.bare
    elif waiting:
        yield flag, waiting.pop()
    else:
        raise UsageError(f"flag needs an argument: --{typed}")


def _short(flags: Sequence[Flag], argument: str, waiting: list[str]) -> Iterator[tuple[Flag, str]]:
    """`-v2`, `-v=2`, `-v 2`, and several bare ones together."""
    letters = argument[1:]
    while letters:
        letter, rest = letters[0], letters[1:]
        flag = next((flag for flag in flags if flag.shorthand == letter), None)
        if flag is None:
            raise UsageError(f"unknown shorthand flag: '{letter}' in -{letters}")
        letters = ""
        if rest.startswith("=") and len(rest) > 1:
            yield flag, rest[1:]
        elif flag.kind.bare is not None:
            yield flag, flag.kind.bare
            letters = rest
        elif rest or waiting:
            yield flag, rest or waiting.pop()
        else:
            raise UsageError(f"flag needs an argument: '{letter}' in -{letter}")


def _read(flag: Flag, text: str, before: object) -> object:
    """The value of a flag from its text and from its earlier values on the same line."""
    try:
        value = flag.kind.parse(text)
    except ValueTextError as error:
        name = f"-{flag.shorthand}, --{flag.name}" if flag.shorthand else f"--{flag.name}"
        raise UsageError(
            f'invalid argument {gotext.quote(text)} for "{name}" flag: {error}'
        ) from error
    if before is None or flag.kind.extend is None:
        return value
    return flag.kind.extend(before, value)


def refuse_positionals(command: str, parsed: Parsed, meant: str = "") -> None:
    """Refuse arguments that are no flags; empty ones, which templates leave behind, are fine.

    `meant` is the flag that people forget, if there is one.
    """
    given = [each for each in parsed.positionals if each]
    if given:
        listed = " ".join(map(gotext.quote, parsed.positionals))
        hint = f": did you mean --{meant} {given[0]}?" if meant else ""
        raise UsageError(
            f"{gotext.quote(command)} does not take any arguments, got [{listed}]{hint}",
            show_usage=False,
        )


def rendered(flags: Iterable[Flag], parsed: Parsed) -> dict[str, str]:
    """The value of every flag as text, by name in order: for `FLAG:` lines and for /flagz."""
    usable = sorted((flag for flag in flags if not flag.refused), key=lambda flag: flag.name)
    return {flag.name: flag.kind.render(parsed.values[flag.name]) for flag in usable}


# --- the usage text ---------------------------------------------------------------------------


WIDEST: Final = 100


def usage(
    command: str, flags: Sequence[Flag], width: int = WIDEST, before: Sequence[str] = ()
) -> str:
    """How to call a command: its flags in groups, each with its help below it.

    The lines that stand `before` the flags have been fitted to the width.
    """
    lines = ["Usage:", f"  {command} [flags]", *before]
    shown = [flag for flag in flags if visible(flag)]
    for group in dict.fromkeys(flag.group for flag in shown):
        lines += ["", f"{group} flags:" if group else "Flags:"]
        for flag in shown:
            if flag.group == group:
                lines += _entry(flag, width)
    return "\n".join(lines) + "\n"


def _entry(flag: Flag, width: int) -> list[str]:
    """The lines about one flag."""
    indent = " " * 10
    first = "  " if flag.shorthand else "      "
    lines = textwrap.wrap(
        head(flag),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in flag.help.splitlines():
        lines += textwrap.wrap(
            line, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False
        )
    return lines


def head(flag: Flag) -> str:
    """How a flag is written, and its default."""
    short = f"-{flag.shorthand}, " if flag.shorthand else ""
    written = f"{short}--{flag.name} {flag.kind.name}".rstrip()
    default = flag.kind.render(flag.default)
    return written if default in _NOTHING else f"{written} (default {default})"


def visible(flag: Flag) -> bool:
    """Whether people are told of a flag."""
    return not (flag.deprecated or flag.refused)
