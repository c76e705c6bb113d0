"""What a bundle is made of: pages of the daemon, our other commands, and the kernel's tools."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from kubeproxy.base.commit import commit
from kubeproxy.base.errors import KubeProxyError, NoDaemonError, OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.base.version import described
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.linux.tools import RuleKind, find, find_iptables, run
from kubeproxy.serve.status.tablewire import read_table
from kubeproxy.tools import client
from kubeproxy.tools.bundle.archive import Part

_PROGRAMS: Final = ("nft", "iptables-save", "ipset", "ipvsadm", "conntrack")
_LIBRARIES: Final = ("aiohttp", "h2", "msgspec", "PyYAML")
_CONNTRACK: Final = ("net/netfilter/nf_conntrack_count", "net/netfilter/nf_conntrack_max")
_OS_RELEASE: Final = Path("/etc/os-release")
_CONNTRACK_STATISTICS: Final = Path("/proc/net/stat/nf_conntrack")


class Wanted(msgspec.Struct, frozen=True):
    """A part that is to be gathered; `read` raises when it cannot be had."""

    name: str
    what: str
    read: Callable[[], bytes]


class Unavailable(OperatorError):
    """A part that cannot be had."""


def wanted(daemon: client.Client, flags: Sequence[str], seconds: float) -> Iterator[Wanted]:
    """All parts. Commands get these flags, and so many seconds each."""
    own = partial(_command, flags=flags, seconds=seconds)
    yield Wanted("versions.txt", "versions of this program and of what it uses", _versions)
    yield from _pages(_Daemon(daemon))
    yield Wanted("status.txt", "kube-proxy status", partial(own, ("status",), {0, 1}))
    yield Wanted(
        "diff.txt",
        "kube-proxy diff: how the kernel differs from the table; empty when it does not",
        partial(own, ("diff", "--limit=0"), {0, 1}),
    )
    check = partial(_command, ("check",), {0, 1, 2}, flags=(), seconds=seconds)
    yield Wanted("check.txt", "kube-proxy check: what the node has, and lacks", check)
    yield from _kernel(seconds)


def gathered(each: Wanted) -> Part:
    """The part, or why there is none."""
    try:
        return Part(each.name, each.what, each.read())
    except (KubeProxyError, OSError) as error:
        return Part(each.name, each.what, missing=" ".join(str(error).split()))


# --- the daemon -------------------------------------------------------------------------------


class _Daemon:
    """Asked until it does not answer: then no other page waits for it again."""

    def __init__(self, daemon: client.Client) -> None:
        self._client = daemon
        self._failure: NoDaemonError | None = None

    def read(self, path: str, query: client.Query | None = None) -> bytes:
        if self._failure is not None:
            raise self._failure
        try:
            return self._client.read(path, query)
        except NoDaemonError as error:
            if len(self._client.places) > 1:  # none has ever answered
                self._failure = error
            raise


def _pages(daemon: _Daemon) -> Iterator[Wanted]:
    read = daemon.read
    pages = {
        "status.json": ("its health, its syncs and what is wrong", "/status", None),
        "services.json": ("its Services", "/status/services", {"limit": "0"}),
        "failures.json": ("connections that endpoints failed", "/status/failures", None),
        "metrics.txt": ("its metrics", "/metrics", None),
        "config.json": ("its configuration, which has no credentials", "/configz", None),
        "log.txt": ("the last lines of its log", "/log", None),
    }
    for name, (what, path, query) in pages.items():
        yield Wanted(name, what, partial(read, path, query))
    for family in Family:
        query = {"family": family.value}
        table = partial(read, "/status/table", query)
        yield Wanted(f"table-{family.value}.jsonl", f"its {family.value} table", table)
        yield Wanted(
            f"desired-{family.value}.txt",
            f"the {family.value} rules that the table means, as the kernel's tools write them",
            partial(_desired, table),
        )


def _desired(table: Callable[[], bytes]) -> bytes:
    desired = read_table(table())
    return load_mode(desired.mode).render(desired.config, desired.table, desired.node).encode()


# --- programs ---------------------------------------------------------------------------------


def _command(
    words: Sequence[str], codes: Collection[int], *, flags: Sequence[str], seconds: float
) -> bytes:
    """What a command of ours prints; its notes follow."""
    # Our own program, not one of that name in the directory that this one runs in.
    command = [sys.executable, "-P", "-m", "kubeproxy", *words, *flags]
    try:
        done = subprocess.run(  # noqa: S603  # our own program, with flags that were checked
            command, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"it did not end within {seconds:g} s (--timeout)") from error
    if done.returncode not in codes or done.stderr.startswith(b"Error: "):
        raise Unavailable(done.stderr.decode(errors="replace").strip() or "it failed")
    return done.stdout + done.stderr


def _kernel(seconds: float) -> Iterator[Wanted]:
    listing = partial(_listing, seconds=seconds)
    yield Wanted("nft.txt", "nft list ruleset", partial(listing, "nft", "list", "ruleset"))
    for program in ("iptables-save", "ip6tables-save"):
        for kind in RuleKind:
            save = partial(_saved, program, kind, seconds)
            yield Wanted(f"{program}-{kind.value}.txt", f"{program} -c, {kind.value}", save)
    yield Wanted("ipset.txt", "ipset list", partial(listing, "ipset", "list"))
    yield Wanted("ipvs.txt", "ipvsadm -Ln --stats", partial(listing, "ipvsadm", "-Ln", "--stats"))
    yield Wanted("conntrack.txt", "how full connection tracking is", _conntrack)


def _listing(name: str, *arguments: str, seconds: float) -> bytes:
    program = find(name)
    if program is None:
        raise Unavailable(f"{name} is not installed here")
    return run([program, *arguments], seconds=seconds).encode(errors="surrogateescape")


def _saved(program: str, kind: RuleKind, seconds: float) -> bytes:
    path = find_iptables(program, kind)
    if path is None:
        raise Unavailable(f"{program} of that kind is not installed here")
    return run([path, "-c"], seconds=seconds).encode(errors="surrogateescape")


def _conntrack() -> bytes:
    settings = [f"{name} {_setting(name)}\n" for name in _CONNTRACK]
    return "".join(settings).encode() + _CONNTRACK_STATISTICS.read_bytes()


def _setting(name: str) -> str:
    return Path("/proc/sys", name).read_text().strip()


# --- versions ---------------------------------------------------------------------------------


def _versions() -> bytes:
    system = os.uname()
    lines = [
        described(commit()),
        f"Python {platform.python_version()}",
        *(f"{name} {metadata.version(name)}" for name in _LIBRARIES),
        f"Linux {system.release} {system.version} {system.machine}",
        *(f"{name}: {_version(name)}" for name in _PROGRAMS),
    ]
    if _OS_RELEASE.exists():
        lines += ["", _OS_RELEASE.read_text().strip()]
    return ("\n".join(lines) + "\n").encode()


def _version(name: str) -> str:
    program = find(name)
    if program is None:
        return "not installed here"
    try:
        return " ".join(run([program, "--version"], seconds=10).split())
    except KubeProxyError as error:
        return str(error)
