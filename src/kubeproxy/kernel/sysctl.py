"""Kernel settings under /proc/sys, named as `sysctl` names them."""

from pathlib import Path

from kubeproxy.errors import KernelError

_ROOT = Path("/proc/sys")


def read_sysctl(name: str, root: Path = _ROOT) -> int | None:
    """The value of a setting; None when this kernel has none of that name."""
    try:
        return int(_path(name, root).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise KernelError(f"cannot read sysctl {name}: {error}") from error


def ensure_sysctl(name: str, value: int, root: Path = _ROOT) -> bool:
    """Set a setting unless it has that value; whether that was needed."""
    if read_sysctl(name, root) == value:
        return False
    try:
        _path(name, root).write_text(str(value))
    except OSError as error:
        raise KernelError(f"cannot set sysctl {name} to {value}: {error.strerror}") from error
    return True


def _path(name: str, root: Path) -> Path:
    return root.joinpath(*name.split("."))
