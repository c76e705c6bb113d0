"""Listening sockets: TCP ports, bound and refused as by Go's `net.Listen`, and Unix sockets."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family, family_of, join, pack
from kubeproxy.linux.descriptors import leave_the_last

_BACKLOG = 4096
_UNIX_BACKLOG = 64
_NO_IPV6 = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT}
_AF = {Family.IPV4: socket.AF_INET, Family.IPV6: socket.AF_INET6}


class Network(Enum):
    """Go's name for the families of a socket: both, or one."""

    TCP = "tcp"
    TCP4 = "tcp4"
    TCP6 = "tcp6"


class ListenError(OperatorError):
    """A port cannot be listened on: another process has it, or the address is not ours."""


def listen(address: str, port: int, network: Network = Network.TCP) -> socket.socket:
    """A socket that listens, on one address or on all.

    An unspecified address of the network `tcp` stands for both families, however it is written;
    where there is no IPv6, for IPv4.
    """
    with _errors_of_port(network, join(address, port)):
        if network is not Network.TCP or any(pack(address)):
            return _bound(_AF[family_of(address)], address, port)
        try:
            return _bound(socket.AF_INET6, "::", port, both=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
        return _bound(socket.AF_INET, "0.0.0.0", port)  # noqa: S104  # what was asked for


def _bound(
    family: socket.AddressFamily, address: str, port: int, *, both: bool = False
) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        leave_the_last(made)
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not both))
        made.bind((address, port))
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


@contextlib.contextmanager
def _errors_of_port(network: Network, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        reason = reason[:1].lower() + reason[1:]
        raise ListenError(f"listen {network.value} {where}: bind: {reason}") from error


# --- Unix sockets -----------------------------------------------------------------------------


def listen_unix(path: str) -> socket.socket:
    """A Unix socket that listens at the path; one that a process left behind is replaced."""
    with _errors_of_path(path):
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_left_over(path):
            Path(path).unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            before = os.umask(0o177)
            try:
                made.bind(path)
            finally:
                os.umask(before)
            made.listen(_UNIX_BACKLOG)
        except OSError:
            made.close()
            raise
        return made


def _is_left_over(path: str) -> bool:
    """Whether there is a socket that no process listens on."""
    if not Path(path).is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(1.0)
        return caller.connect_ex(path) == errno.ECONNREFUSED


@contextlib.contextmanager
def _errors_of_path(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            reason = "another process has it, or it is no socket"
        raise ListenError(
            f"{path}: {reason}; give this process a path of its own (statusSocket,"
            " --status-socket)"
        ) from error
