"""Reads the node: rights, settings, programs, modules, listeners. Changes nothing."""

import contextlib
import errno
import os
from collections.abc import Collection, Iterable
from glob import iglob
from pathlib import Path

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import (
    BRIDGE,
    PROGRAMS,
    Finding,
    lacking,
    modules_in,
    ok,
    one_will_do,
    unfinished,
)
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.sysctl import is_fixed, read_sysctl
from kubeproxy.linux.tools import ToolFailed, run
from kubeproxy.linux.xtables import find_program, unfit
from kubeproxy.tools.check.ports import ListeningSocket, listeners_in
from kubeproxy.tools.check.rights import NET_ADMIN, Rights, effective
from kubeproxy.tools.check.sysctls import SysctlReading

_STATUS = Path("/proc/self/status")
_SYSCTLS = Path("/proc/sys")
_MODULES = Path("/lib/modules")
_LOADED = Path("/sys/module")
_KERNEL_HAS_MODULES = Path("/proc/modules")
_BRIDGE_SYSCTLS = Path("/proc/sys/net/bridge")
_INSTALL = "install iptables, or choose nftables"
_SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_SECONDS = 30.0  # a program that nobody has run yet, on a slow and busy machine


def own_rights() -> Rights:
    """What this process may do."""
    capabilities = effective(_STATUS.read_text())
    return Rights(os.geteuid(), capabilities, administers=_administers(capabilities))


def _administers(capabilities: int) -> bool:
    """Whether the kernel lets us read rules; a capability may hold in a container only."""
    try:
        with Nfnetlink() as netfilter:
            netfilter.generation()
    except Refused as error:
        if error.errno == errno.EPERM:
            return False
        return bool(capabilities >> NET_ADMIN & 1)
    return True


def readings(names: Iterable[str]) -> dict[str, SysctlReading]:
    """Settings as they are, and whether they can be set."""
    found = {}
    for name in names:
        value = None
        with contextlib.suppress(KernelError):
            value = read_sysctl(name)
        path = _SYSCTLS.joinpath(*name.split("."))
        writable = os.access(path, os.W_OK, effective_ids=True)
        found[name] = SysctlReading(value, writable, is_fixed(name))
    return found


def available_modules(release: str, root: Path = _MODULES) -> frozenset[str] | None:
    """The modules that could be loaded; None where their list is not.

    A kernel that has no list of what is loaded was built without modules.
    """
    if not _KERNEL_HAS_MODULES.exists():
        return frozenset()
    try:
        listing = (root / release / "modules.dep").read_text()
    except OSError:
        return None
    return modules_in(listing)


def present_modules(release: str, root: Path = _MODULES) -> frozenset[str]:
    """The modules that are loaded, and those that are built in."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        found |= modules_in((root / release / "modules.builtin").read_text())
    with contextlib.suppress(OSError):
        found |= {module.name for module in _LOADED.iterdir()}
    if _BRIDGE_SYSCTLS.exists():
        found.add(BRIDGE)  # not listed elsewhere when it is built in
    return frozenset(found)


# --- the iptables programs --------------------------------------------------------------------


class Programs(msgspec.Struct, frozen=True):
    """What there is of iptables: `kind` is nft or legacy, "" where there is none."""

    kind: str
    findings: tuple[Finding, ...]


def programs(families: Iterable[Family]) -> Programs:
    """Which iptables programs there are."""
    versions = {family: _version(family) for family in families}
    said = next((each for each in versions.values() if isinstance(each, str) and each), "")
    kind = ("nft" if "nf_tables" in said else "legacy") if said else ""
    findings = [_program_finding(family, version) for family, version in versions.items()]
    return Programs(kind, one_will_do(findings, "the family is not served"))


def _version(family: Family) -> str | ToolFailed:
    """What the program says of itself, "" where there is none."""
    program = find_program(family)
    try:
        return run([program, "--version"], seconds=_SECONDS).strip() if program else ""
    except ToolFailed as error:
        return error


def _program_finding(family: Family, version: str | ToolFailed) -> Finding:
    what = PROGRAM[family]
    if isinstance(version, ToolFailed):
        if not version.ended:
            return unfinished(PROGRAMS, what, version)
        return lacking(PROGRAMS, what, str(version), _INSTALL)
    missing = [what + verb for verb in ("", "-save", "-restore") if not find_program(family, verb)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        detail = f"{', '.join(missing)} {verb} not installed, or not in PATH"
        return lacking(PROGRAMS, what, detail, _INSTALL)
    if why := unfit(version):
        return lacking(PROGRAMS, what, why, "install a newer one, or choose nftables")
    return ok(PROGRAMS, what, version)


# --- listeners --------------------------------------------------------------------------------


def listeners() -> list[ListeningSocket]:
    """Every TCP socket that listens in this network namespace."""
    found: list[ListeningSocket] = []
    for path in _SOCKETS:
        try:
            found += listeners_in(path.read_text())
        except OSError:
            continue  # a kernel without that family
    return found


def owners(inodes: Collection[int], proc: str = "/proc") -> dict[int, str]:
    """The processes that have these sockets, as far as this process may see them."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: dict[int, str] = {}
    # Unlike that of pathlib, this glob passes over processes that end meanwhile.
    for link in map(Path, iglob(f"{proc}/[0-9]*/fd/*") if wanted else ()):  # noqa: PTH207
        with contextlib.suppress(OSError):  # it ended, or may not be read
            inode = wanted.get(str(link.readlink()))
            if inode is not None:
                process = link.parents[1]
                found[inode] = f"{_name(process)} (pid {process.name})"
    return found


def _name(process: Path) -> str:
    """The program, and for an interpreter its script."""
    try:
        words = (process / "cmdline").read_text(errors="replace").split("\0")[:2]
    except OSError:
        return "a process"
    return " ".join(Path(word).name for word in words if word and word[0] != "-") or "a process"
