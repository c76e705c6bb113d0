"""Listening sockets: TCP ports, bound and refused as by Go's `net.Listen`, and Unix sockets."""

import errno
import os
import socket
from pathlib import Path

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family, family_of, join, pack
from kubeproxy.linux.descriptors import leave_the_last

_BACKLOG = 4096
_UNIX_BACKLOG = 64
_AF = {Family.IPV4: socket.AF_INET, Family.IPV6: socket.AF_INET6}


class ListenError(OperatorError):
    """A port cannot be listened on: another process has it, or the address is not ours."""


def listen(address: str, port: int, family: Family | None = None) -> socket.socket:
    """A socket that listens, on one address or on all; with a family, only in that.

    Without one, an unspecified address stands for both, however it is written; where there is no
    IPv6, for IPv4.
    """
    try:
        at = address
        if family is None and not any(pack(address)):
            at = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104  # asked for
        both, kind = family is None and at == "::", _AF[family_of(at)]
        made = socket.create_server((at, port), family=kind, backlog=_BACKLOG, dualstack_ipv6=both)
        leave_the_last(made)
    except OSError as error:
        network = "tcp" + {None: "", Family.IPV4: "4", Family.IPV6: "6"}[family]
        reason = os.strerror(error.errno or 0)
        reason = reason[:1].lower() + reason[1:]
        raise ListenError(f"listen {network} {join(address, port)}: bind: {reason}") from error
    made.setblocking(False)
    return made


# --- Unix sockets -----------------------------------------------------------------------------


def listen_unix(path: str) -> socket.socket:
    """A Unix socket that listens at the path; one that a process left behind is replaced."""
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_left_over(path):
            Path(path).unlink()
        return _bound_unix(path)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another process has it, or it is no socket"
        advice = "give this process a path of its own (statusSocket, --status-socket)"
        raise ListenError(f"{path}: {reason}; {advice}") from error


def _bound_unix(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        made.setblocking(False)
        made.bind(path)
        made.listen(_UNIX_BACKLOG)
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


def _is_left_over(path: str) -> bool:
    """Whether there is a socket that no process listens on."""
    if not Path(path).is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        return caller.connect_ex(path) == errno.ECONNREFUSED
