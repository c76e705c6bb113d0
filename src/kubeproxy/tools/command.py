"""A subcommand from its command line to its answer: flags, usage, text for people, JSON."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TextIO

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import FieldError
from kubeproxy.base.printable import printable
from kubeproxy.config.flagset import WIDEST, Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.kinds import STRING
from kubeproxy.linux.machine import require_supported_machine
from kubeproxy.tools.layout import Display, Line, painted, wrapped

OUTPUT: Final = Flag(
    "output", STRING, "text", "'text' for people or 'json' for programs.", shorthand="o"
)


class Command(msgspec.Struct, frozen=True):
    """How a subcommand is called: its name and what must follow it, and its flags.

    `run` gets the command line and returns the exit code. The usage text has the `listed` flags,
    all if there are none, and ends with `after`. `meant` is the flag that people forget.
    `kernel` says that it reads or writes the kernel, or prints what would be written there.
    """

    call: str
    flags: Sequence[Flag]
    run: Callable[[Parsed], int]
    after: str = ""
    listed: Sequence[Flag] = ()
    meant: str = ""
    takes_arguments: bool = False
    kernel: bool = False
    outputs: Sequence[str] = ("text", "json")

    def usage_text(self) -> str:
        """How to call it."""
        width = usage_width()
        after = (wrapped_line(each, width) for each in self.after.split("\n"))
        return usage(f"kube-proxy {self.call}", self.listed or self.flags, width) + "\n".join(
            after
        )

    def main(self, arguments: Sequence[str]) -> int:
        """Run it with the arguments that follow its name."""
        parsed = parse(self.flags, arguments)
        if parsed.value("help", bool):
            print(self.usage_text(), end="")  # noqa: T201  # what was asked for
            return 0
        if not self.takes_arguments:
            refuse_positionals(f"kube-proxy {self.call.split()[0]}", parsed, self.meant)
        output = str(parsed.values.get("output", "text"))
        if output not in self.outputs:
            *others, last = self.outputs
            raise FieldError("output", output, f"must be {', '.join(others)} or {last}")
        if self.kernel:
            require_supported_machine()
        return self.run(parsed)


def usage_width(stream: TextIO | None = None) -> int:
    """How wide a usage text may be: as the terminal, and not too wide to read."""
    width = display_of(stream or sys.stdout, os.environ).width
    return min(width or WIDEST, WIDEST)


def wrapped_line(line: str, width: int) -> str:
    """A line of a usage text in as many as it needs; further ones stand two further in."""
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return "\n".join(wrapped(line, width, f"{indent}  "))


def not_negative(parsed: Parsed, name: str) -> int:
    """The value of a flag that is a number of something."""
    value = parsed.value(name, int)
    if value < 0:
        raise FieldError(name, str(value), "must not be negative")
    return value


# --- the answer -------------------------------------------------------------------------------


def wants_json(parsed: Parsed) -> bool:
    """Whether the flag `OUTPUT` asks for what programs read."""
    return parsed.value("output", str) in {"json", "yaml"}


def print_answer(
    parsed: Parsed,
    value: object,
    lines: Callable[[int | None], Iterable[Line]],
    *,
    cut: bool = True,
) -> None:
    """Print a value: as JSON or YAML, or as the lines that it has on a display of some width."""
    output = parsed.value("output", str)
    if output == "json":
        say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        return
    if output == "yaml":
        import yaml  # noqa: PLC0415  # seldom asked for

        plain = msgspec.to_builtins(value)
        say(yaml.safe_dump(plain, allow_unicode=True, sort_keys=False).rstrip("\n"))
        return
    display = display_of(sys.stdout, os.environ)
    if output == "wide":
        display = replace(display, width=None)
    shown = lines(display.width)
    show(shown, display if cut else replace(display, width=None))


def display_of(stream: TextIO, environ: Mapping[str, str]) -> Display:
    """The display of a stream: NO_COLOR and TERM=dumb are heeded, as people expect of tools."""
    if not stream.isatty():
        return Display()
    width = os.get_terminal_size(stream.fileno()).columns
    colours = not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    return Display(width or None, colours)


def show(lines: Iterable[Line], display: Display) -> None:
    """Print lines for people."""
    for each in lines:
        say(painted(each, display).rstrip(" "))


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a text; what the stream's encoding does not have becomes a question mark."""
    stream = stream or sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def note(text: str) -> None:
    """Print what is not part of the answer."""
    say(f"note: {printable(text)}", sys.stderr)
