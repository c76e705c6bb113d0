"""File descriptors: how many there are, and the last of them, which clients do not get.

A daemon without descriptors cannot sync: it needs sockets to the kernel and to the API server.
So whatever is opened because of a client, or of a Service, leaves some.
"""

import contextlib
import errno
import os
import resource
import socket

KEPT = 64
"""The last descriptors, for what the daemon itself needs."""
_SHARES = 16


def allow_many() -> None:
    """Let this process have as many descriptors as it may, as Go does at its start.

    The usual soft limit of 1,024 is soon used up by a few hundred services with a port for each
    family and address.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share() -> int:
    """How many connections one of our servers may have, so that all together leave a third free.

    There are three servers with places of two kinds, a little for the status socket, and relays
    of two families, which take two descriptors for each connection.
    """
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARES


def leave_the_last(opened: socket.socket) -> None:
    """Close a socket that took one of the last descriptors, and fail as if there were none.

    The kernel gives the lowest number that is free, so the number shows how many are left.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if opened.fileno() >= limit - KEPT:
        opened.close()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
