"""Facts of this machine: its layout, cores and IP families, and when it ends this process."""

import contextlib
import os
import sys
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.base.inet import Family

_PROC = Path("/proc")
_ONLINE = Path("/sys/devices/system/cpu/online")
_COMM = _PROC / "self/comm"
_OOM_SCORE = _PROC / "self/oom_score_adj"


def require_supported_machine() -> None:
    """Refuse machines whose kernel lays out data in another way than this program does."""
    why = unsupported(os.uname().machine, sys.byteorder, sys.maxsize)
    if why:
        raise OperatorError(why)


def unsupported(machine: str, byte_order: str, largest: int) -> str:
    """Why this program cannot talk to the kernel of such a machine; "" when it can.

    Values of registers and keys of maps are little-endian bytes (`dataplane.nftables`), and the
    structures of the legacy tables have the gaps of 64-bit machines (`linux.legacytables`).
    """
    if byte_order != "little":
        kind = "big-endian"
    elif largest < 1 << 32:
        kind = "32-bit"
    else:
        return ""
    return (
        "kube-proxy supports 64-bit little-endian machines (x86-64, arm64), because it exchanges"
        f" data with the kernel in their layout; this process is {kind} (on {machine})"
    )


def online_cores(path: Path = _ONLINE) -> int:
    """The cores that are online, which may be more than this process may use.

    Where that cannot be read, those that it may use.
    """
    try:
        return count_cores(path.read_text())
    except (OSError, ValueError):
        return len(os.sched_getaffinity(0))


def count_cores(text: str) -> int:
    """How many numbers a list such as `0-3,5` has; ValueError when it is none."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def supported_families(proc: Path = _PROC) -> tuple[Family, ...]:
    """IPv4, and IPv6 when the kernel has it and no sysctl turns it off."""
    missing = why_no_ipv6(proc)
    if missing:
        klog.info(missing, ipFamily=Family.IPV6.value)
        return (Family.IPV4,)
    return (Family.IPV4, Family.IPV6)


def why_no_ipv6(proc: Path = _PROC) -> str:
    """Why this machine does not support IPv6; "" when it does."""
    if not (proc / "net/if_inet6").exists():
        return "No kernel support for family"
    try:
        disabled = (proc / "sys/net/ipv6/conf/all/disable_ipv6").read_text()
    except OSError:
        disabled = "0"
    return "Kernel support disabled for family" if disabled.strip() == "1" else ""


def name_process(name: str, path: Path = _COMM) -> None:
    """Name this process, and threads that start from now on, as `ps` and the kernel's notices do.

    Otherwise it is the name of the program that was started, such as that of Python.
    """
    with contextlib.suppress(OSError):
        path.write_text(name)


def ensure_oom_score_adj(score: int, path: Path = _OOM_SCORE) -> None:
    """Set when the kernel ends this process if memory runs out: -1000 (never) to 1000 (first).

    A lower score than the present one takes CAP_SYS_RESOURCE.
    """
    try:
        if int(path.read_text()) != score:
            path.write_text(str(score))
    except (OSError, ValueError) as error:
        raise KernelError(f"cannot set {path} to {score}: {error}") from error
