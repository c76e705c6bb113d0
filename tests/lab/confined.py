"""Starts a command as a container runtime starts a pod's container: few rights, nothing to write.

`python -m lab.confined NET_ADMIN,NET_RAW /run/xtables.lock -- COMMAND`: the user is root with
these capabilities and no others, gains none by starting programs, and can write only the files
named. /proc/sys is read-only, as runtimes have it.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.namespaces import (
    CLONE_NEWNS,
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    Refused,
    mount,
    unshare,
)

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 1
_MOUNT_SETATTR = 442  # the system call; the C library may be too old to know it
_libc = ctypes.CDLL(None, use_errno=True)


def through(capabilities: Sequence[str], writable: Sequence[str] = ()) -> list[str]:
    """The command line that comes before the command's own."""
    return [sys.executable, "-m", "lab.confined", ",".join(capabilities), *writable, "--"]


def confine(writable: Sequence[str]) -> None:
    """Give this process mounts of its own, which are read-only but for some files."""
    unshare(CLONE_NEWNS)
    mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    for place in ("/proc/sys", *writable):
        mount(place, Path(place), None, MS_BIND)
    _set_attributes("/", flags=_AT_RECURSIVE, set_=_MOUNT_ATTR_RDONLY)
    for place in ("/proc", *writable):
        _set_attributes(place, clear=_MOUNT_ATTR_RDONLY)


def _set_attributes(place: str, *, flags: int = 0, set_: int = 0, clear: int = 0) -> None:
    attributes = struct.pack("4Q", set_, clear, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, place.encode(), flags, attributes, len(attributes)
    )
    if result != 0:
        raise Refused(f"mount_setattr {place}", ctypes.get_errno())


def main(arguments: Sequence[str]) -> None:
    """Confine, and become the command."""
    end = arguments.index("--")
    capabilities, *writable = arguments[:end]
    confine(writable)
    rights = "".join(f",+{name.lower()}" for name in capabilities.split(",") if name)
    os.execvp(
        "setpriv",
        [
            *("setpriv", f"--bounding-set=-all{rights}", "--inh-caps=-all"),
            *("--ambient-caps=-all", "--no-new-privs", "--"),
            *arguments[end + 1 :],
        ],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
