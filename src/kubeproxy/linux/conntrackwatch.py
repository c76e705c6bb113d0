"""Word of every connection that the kernel begins to track in this network namespace."""

import errno
import socket
import struct
from collections.abc import Iterator
from typing import Self

from kubeproxy.base.errors import KernelError, OperatorError
from kubeproxy.linux.netlink.conntrack import NFNLGRP_CONNTRACK_NEW
from kubeproxy.linux.netlink_socket import NETLINK_ADD_MEMBERSHIP, SOL_NETLINK
from kubeproxy.linux.nfnetlink import open_netfilter
from kubeproxy.linux.sysctl import read_sysctl

_DATAGRAM = 1 << 16
# asm-generic/socket.h and linux/sock_diag.h; Python's socket module lacks them.
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=9I")
_DROPS = 8

_EVENTS = "net.netfilter.nf_conntrack_events"
_OFF = (
    f"the kernel tells nobody of new connections, because sysctl {_EVENTS} is 0: "
    f"run `sysctl -w {_EVENTS}=1`"
)
_NOT_THERE = (
    "the kernel cannot tell of new connections: load the module nf_conntrack_netlink (a kernel "
    f"without sysctl {_EVENTS} was built without CONFIG_NF_CONNTRACK_EVENTS)"
)
_NO_RIGHT = (
    "cannot listen to connection tracking: that needs CAP_NET_ADMIN in the node's network "
    "namespace; run it as root on the node, or in the pod of kube-proxy"
)


class ConnectionWatch:
    """A socket that listens from its making on, until it is closed.

    What comes faster than it is read waits in a buffer of up to 16 MB, some 13,000 connections;
    beyond that it is lost, and counted.
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(_DATAGRAM))
        self._socket = open_netfilter()
        try:
            self._join()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()

    def fileno(self) -> int:
        """For `poll`."""
        return self._socket.fileno()

    @property
    def lost(self) -> int:
        """How many events were lost until now, because they came faster than they were read."""
        told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(told)[_DROPS])

    def waiting(self, most: int) -> Iterator[bytes]:
        """Up to so many events that wait to be read, each as it is."""
        for _ in range(most):
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # `lost` tells how many
                    raise KernelError(f"cannot read new connections: {error}") from error
            else:
                yield bytes(self._buffer[:size])

    def _join(self) -> None:
        try:
            self._socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_CONNTRACK_NEW)
        except PermissionError:
            raise OperatorError(_NO_RIGHT) from None
        # The setting is there only now: joining loads the module.
        match read_sysctl(_EVENTS):
            case None:
                raise OperatorError(_NOT_THERE)
            case 0:
                raise OperatorError(_OFF)
