"""Sets of the kernel (ipset): through the `ipset` program; their names, without it."""

import socket
from collections.abc import Iterable
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink import nfnetlink as nf
from kubeproxy.linux.netlink.attribute import attribute, u32
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import ToolFailed, find, lines_named, quoted, run, version_in

_OLDEST: Final = (6, 0)
_PROTOCOL: Final = b"\x06"  # kernels that speak a newer one take it too


class IpsetFailed(KernelError):
    """The program failed. `line` is the number of the refused line; 0 when it names none.

    Nothing after that line is done, and of what is before it perhaps not all: to go on, remove
    the line and start again. `ended` is false when the program was killed.
    """

    def __init__(self, text: str, line: int = 0, *, ended: bool = True) -> None:
        super().__init__(text)
        self.line = line
        self.ended = ended


def check() -> None:
    """Raise `IpsetFailed` unless there is an ipset that is new enough."""
    reason = unfit(version())
    if reason:
        raise IpsetFailed(f"{reason}: install a newer one, or use another proxy mode")


def version() -> str:
    """What `ipset --version` prints."""
    return _run("--version").strip()


def unfit(version_text: str) -> str:
    """Why an ipset of that version cannot be used; "" when it can."""
    found = version_in(version_text)
    if found is None:
        return f"ipset --version names no version: {version_text}"
    return "" if found >= _OLDEST else f"{version_text} is too old, 6.0 or later is needed"


def check_matches() -> None:
    """Raise `IpsetFailed` unless rules can match sets: iptables opens a raw socket for it."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).close()
    except PermissionError as error:
        raise IpsetFailed(
            "iptables cannot write rules that look into sets: the process needs CAP_NET_RAW"
            " beside CAP_NET_ADMIN"
        ) from error


def restore(text: str) -> None:
    """Carry out the lines of the text; what exists already, or is gone, is no error."""
    _run("restore", "-exist", stdin=text)


def save(wanted: Iterable[str]) -> str:
    """Those of the sets that exist, with their members, as text that `restore` takes.

    Sets of others, which may be very large, are not read.
    """
    existing = names()
    lines = [f"save {name}\n" for name in wanted if name in existing]
    return _run("restore", stdin="".join(lines)) if lines else ""


def names() -> tuple[str, ...]:
    """The names of all sets; for this, no program has to be installed."""
    payload = attribute(nf.IPSET_ATTR_PROTOCOL, _PROTOCOL)
    payload += u32(nf.IPSET_ATTR_FLAGS, nf.IPSET_FLAG_LIST_SETNAME)
    with Nfnetlink() as netfilter:
        answers = netfilter.dump(nf.IPSET_CMD_LIST, nf.NFPROTO_UNSPEC, payload)
    found = (nf.attributes_in(answer)[nf.IPSET_ATTR_SETNAME] for answer in answers)
    return tuple(name.rstrip(b"\0").decode(errors="replace") for name in found)


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
        named = lines_named(error.stderr, stdin)
        why, line = f"{error}{quoted(named)}", next(iter(named), 0)
        raise IpsetFailed(why, line, ended=error.ended) from error
