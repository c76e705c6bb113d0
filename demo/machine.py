"""What the demo needs of the machine: two programs, and namespaces that need no root."""

import os
import shutil

from kubeproxy.base.errors import OperatorError
from lab.enter import enter

PROGRAMS = {"ip": "iproute2", "setpriv": "util-linux"}
"""The programs, and the Debian packages that they come in."""
_STANDARD_STREAMS = 2


def enter_namespaces() -> None:
    """Leave the host's network for one of our own; an `OperatorError` says what is in the way."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # where Debian keeps them, and users do not look
    missing = [package for name, package in PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        names = " ".join(missing)
        raise OperatorError(f"the demo needs programs that are missing; apt-get install {names}")
    _fill_closed_streams()
    try:
        enter()
    except OSError as error:
        raise OperatorError(
            f"the demo builds its network in namespaces, which this machine does not grant to "
            f"this user ({error.strerror}): allow them with sysctl user.max_user_namespaces=10000 "
            "and, on Ubuntu, kernel.apparmor_restrict_unprivileged_userns=0, or run the container "
            "with --privileged"
        ) from error


def _fill_closed_streams() -> None:
    """Without a standard input, the first socket would become one."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > _STANDARD_STREAMS:
            os.close(fd)
            return
