"""The `ipset` program: the kernel's sets as text, all of them at a time."""

import re
import socket
from typing import Final

from kubeproxy.errors import KernelError
from kubeproxy.kernel.tools import ToolFailed, find, run

_VERSION: Final = re.compile(r"v([0-9]+)\.([0-9]+)")
_OLDEST: Final = (6, 0)
_LINE: Final = re.compile(r"\bin line (\d+):")


class IpsetFailed(KernelError):
    """The program failed. `line` is that of the text which it refused; 0 when it names none.

    Nothing after that line is done, and of what stands before it perhaps not all: to go on, take
    the line out and begin again.
    """

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def check() -> None:
    """Raise `IpsetFailed` unless there is an ipset that is new enough."""
    said = _run("--version")
    version = _VERSION.search(said)
    if version is None:
        raise IpsetFailed(f"ipset --version names no version: {said.strip()}")
    if (int(version[1]), int(version[2])) < _OLDEST:
        raise IpsetFailed(f"ipset is {version[0]}: install 6.0 or newer")


def check_matches() -> None:
    """Raise `IpsetFailed` unless rules can look into sets: iptables opens a raw socket for it."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()
    except PermissionError as error:
        raise IpsetFailed(
            "iptables cannot write rules that look into sets: the process needs CAP_NET_RAW"
            " beside CAP_NET_ADMIN"
        ) from error


def restore(text: str) -> None:
    """Carry out the lines of the text; what is there already, or gone, is no error."""
    _run("restore", "-exist", stdin=text)


def save() -> str:
    """All sets with their members, as text that `restore` takes."""
    return _run("save")


def names() -> str:
    """The names of all sets, one in a line."""
    return _run("list", "-n")


def destroy(name: str) -> None:
    """Delete a set; it must exist, and no rule may use it."""
    _run("destroy", name)


def _run(*arguments: str, stdin: str = "") -> str:
    program = find("ipset")
    if program is None:
        raise IpsetFailed(
            "ipset is not installed, or not in PATH: install it (apt-get install ipset), or use"
            " another proxy mode"
        )
    try:
        return run([program, *arguments], stdin)
    except ToolFailed as error:
        match = _LINE.search(error.said)
        number = int(match[1]) if match else 0
        lines = stdin.split("\n")
        shown = f"; line {number} is: {lines[number - 1]}" if 0 < number <= len(lines) else ""
        raise IpsetFailed(f"{error}{shown}", number) from error
