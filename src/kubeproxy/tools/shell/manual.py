"""The manual page: the daemon's flags and those of each command, as man(7) has them.

`scripts/manual` writes the page, which the package installs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.flagset import Flag, head, visible

_ABOUT: Final = f"""\
It runs on every node of a Kubernetes cluster, watches Services and EndpointSlices, and programs
the kernel so that a connection to a Service reaches one of its endpoints, in nftables, iptables or
ipvs mode. It accepts the flags and the configuration of kube-proxy {KUBERNETES_VERSION}, whose
behaviour it follows.

The commands ask a running proxy, a cluster or a directory of manifests. Without a command, the
proxy runs.
"""
_EXIT: Final = (
    ("0", "Success."),
    ("1", "An error; what status calls not well; a difference that diff has found."),
    ("2", "check could not find out, or diff failed."),
    ("3", "A command needs a running proxy, and none answers."),
    ("128+N", "A signal with the number N ended it."),
)
_FILES: Final = (
    ("/run/kube-proxy/status.sock", "Where a running proxy answers the commands, for root."),
    ("http://127.0.0.1:10249/", "Metrics and the status page."),
    ("0.0.0.0:10256", "Health: /healthz and /livez."),
)
_EXAMPLES: Final = (
    ("kube-proxy status", "Is the proxy of this node well, and what to do if not."),
    ("kube-proxy explain shop/cart:80", "Where a packet to a Service goes, and why."),
    ("kube-proxy check", "What this node lacks for each mode. Changes nothing."),
    ("kube-proxy --config config.conf --dry-run -v=2", "Run without writing to the kernel."),
)
_BLANKS: Final = re.compile(r"\s+")


class Described(NamedTuple):
    """A command: how it is called, what it says, and its flags."""

    call: str
    what: str
    flags: Sequence[Flag]


def manual(flags: Sequence[Flag], commands: Iterable[Described]) -> str:
    """The page's source."""
    return "\n".join(_lines(flags, tuple(commands))) + "\n"


def _lines(flags: Sequence[Flag], commands: Sequence[Described]) -> Iterator[str]:
    yield f'.TH KUBE\\-PROXY 8 "" "kubeproxy {VERSION}" "System administration"'
    yield from (".nh", ".SH NAME", r"kube\-proxy \- Services of Kubernetes, on a node")
    yield from (".SH SYNOPSIS", ".B kube\\-proxy", ".RI [ flags ]", ".br")
    yield from (".B kube\\-proxy", ".I command", ".RI [ flags ]", ".SH DESCRIPTION")
    for number, text in enumerate(_ABOUT.split("\n\n")):
        yield from (*((".PP",) if number else ()), escaped(text))
    yield ".SH COMMANDS"
    for command in commands:
        yield from (f".SS {escaped(command.call)}", f"{escaped(_sentence(command.what))}")
        yield from _flags(command.flags)
    for group in dict.fromkeys(flag.group for flag in flags if visible(flag)):
        yield f".SH {escaped(group.upper())} FLAGS"
        yield from _flags([flag for flag in flags if flag.group == group])
    for title, rows in (("EXAMPLES", _EXAMPLES), ("EXIT STATUS", _EXIT), ("FILES", _FILES)):
        yield f".SH {title}"
        for name, text in rows:
            yield from (".TP", f".B {escaped(name)}", escaped(text))


def _flags(flags: Iterable[Flag]) -> Iterator[str]:
    for flag in flags:
        if visible(flag):
            yield from (".TP", f".B {escaped(head(flag))}", escaped(flag.help))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def escaped(text: str) -> str:
    """A text of one line in which nothing is a macro or an escape sequence."""
    one = _BLANKS.sub(" ", text).strip().replace("\\", r"\e").replace("-", r"\-")
    one = one.replace("'", r"\(aq").replace("~", r"\(ti").replace("^", r"\(ha")
    return rf"\&{one}" if one.startswith(".") else one
