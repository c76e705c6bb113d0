"""Sets of the kernel: as text, through the `ipset` program; their names, without it."""

import re
import socket
from collections.abc import Iterable
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink.attribute import attribute, u32
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFPROTO_UNSPEC
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import ToolFailed, find, run, version_in

_OLDEST: Final = (6, 0)
# linux/netfilter/ipset/ip_set.h
_CMD_LIST: Final = 6 << 8 | 7
_ATTR_PROTOCOL, _ATTR_SETNAME, _ATTR_FLAGS = 1, 2, 6
_PROTOCOL: Final = b"\x06"  # kernels that speak a newer one take it too
_FLAG_LIST_SETNAME: Final = 1 << 1
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
    why = unfit(version())
    if why:
        raise IpsetFailed(f"{why}: install a newer one, or use another proxy mode")


def version() -> str:
    """What ipset says that it is."""
    return _run("--version").strip()


def unfit(said: str) -> str:
    """Why an ipset that says this of itself will not do; "" when it will."""
    found = version_in(said)
    if found is None:
        return f"ipset --version names no version: {said}"
    return "" if found >= _OLDEST else f"{said} is too old, 6.0 or later is needed"


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


def save(wanted: Iterable[str]) -> str:
    """Those of the sets that exist, with their members, as text that `restore` takes.

    Sets of others, which may be very large, are not read.
    """
    there = names()
    asked = [name for name in wanted if name in there]
    return _run("restore", stdin="".join(f"save {name}\n" for name in asked)) if asked else ""


def names() -> tuple[str, ...]:
    """The names of all sets; for this, no program has to be installed."""
    asked = attribute(_ATTR_PROTOCOL, _PROTOCOL) + u32(_ATTR_FLAGS, _FLAG_LIST_SETNAME)
    with Nfnetlink() as netfilter:
        answers = netfilter.dump(_CMD_LIST, NFPROTO_UNSPEC, asked)
    found = (attributes(answer.payload[NFGENMSG.size :]) for answer in answers)
    return tuple(each[_ATTR_SETNAME].rstrip(b"\0").decode(errors="replace") for each in found)


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
