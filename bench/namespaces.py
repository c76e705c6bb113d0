"""Where a run happens: network namespaces of its own, from which nothing of the host is reached.

With the privileges of a node's root the buffers of sockets are as large as a proxy finds them on a
node; without, a user namespace makes do, and transactions are limited by `net.core.wmem_max`.
"""

import contextlib
import errno
import os
import socket
import subprocess
from collections.abc import Iterator

from bench.clusters import NODE_ADDRESS
from lab.enter import enter as enter_user_namespace
from lab.namespaces import CLONE_NEWNET, CLONE_NEWNS, Namespace, Refused, private_mounts, unshare

_SO_SNDBUFFORCE = 32  # asm-generic/socket.h; Python's socket module lacks it


def enter() -> None:
    """Put this process, which must have one thread only, aside."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    try:
        unshare(CLONE_NEWNET | CLONE_NEWNS)
    except Refused as refused:
        if refused.errno != errno.EPERM:
            raise
        enter_user_namespace()
        return
    private_mounts()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def is_privileged() -> bool:
    """Whether sockets get the buffers that they ask for, as on a node."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        try:
            link.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 1 << 20)
        except PermissionError:
            return False
        return True


@contextlib.contextmanager
def node_namespace(name: str) -> Iterator[Namespace]:
    """An empty namespace with the node's address on a device that leads nowhere."""
    namespace = Namespace(name)
    try:
        _wire(namespace)
        yield namespace
    finally:
        namespace.close()


def _wire(namespace: Namespace) -> None:
    lines = (
        "link set lo up",
        "link add name eth0 type veth peer name nowhere",
        f"address add {NODE_ADDRESS}/24 dev eth0",
        "link set eth0 up",
        "link set nowhere up",
        f"route add default via {NODE_ADDRESS} dev eth0",
    )
    namespace.run(["ip", "-batch", "-"], stdin="\n".join(lines))
