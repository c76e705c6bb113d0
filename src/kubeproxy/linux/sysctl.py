"""Kernel settings under /proc/sys, named as `sysctl` names them."""

import stat
from pathlib import Path

from kubeproxy.base.errors import KernelError

_ROOT = Path("/proc/sys")
_WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def read_sysctl(name: str, root: Path = _ROOT) -> int | None:
    """The value of a setting; None when this kernel has none of that name."""
    try:
        return int(_path(name, root).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise KernelError(f"cannot read sysctl {name}: {error}") from error


def write_sysctl(name: str, value: int, root: Path = _ROOT) -> None:
    """Set a setting, whatever it is."""
    try:
        _path(name, root).write_text(str(value))
    except OSError as error:
        reason = error.strerror or str(error)
        raise KernelError(f"cannot set sysctl {name} to {value}: {reason.lower()}") from error


def is_fixed(name: str, root: Path = _ROOT) -> bool:
    """Whether no process can set it here.

    So it is with settings of the whole machine in every network namespace but the first.
    """
    try:
        return _path(name, root).stat().st_mode & _WRITABLE == 0
    except OSError:
        return False


def ensure_sysctl(name: str, value: int, root: Path = _ROOT) -> bool:
    """Set a setting unless it has that value; whether that was needed."""
    if read_sysctl(name, root) == value:
        return False
    write_sysctl(name, value, root)
    return True


def _path(name: str, root: Path) -> Path:
    return root.joinpath(*name.split("."))
