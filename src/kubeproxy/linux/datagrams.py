"""All datagrams in the buffer of a netlink socket, with few system calls: recvmmsg.

Python lacks it. Reading the answers about a quarter of a million elements takes half the time
that a call for each of them takes.
"""

import ctypes
import errno
import os
import socket
from struct import Struct

_libc = ctypes.CDLL(None, use_errno=True)


class _Vector(ctypes.Structure):
    """struct iovec: a buffer."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Header(ctypes.Structure):
    """struct msghdr: the buffers of one datagram."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Received(ctypes.Structure):
    """struct mmsghdr: the same, and how many bytes were received."""

    _fields_ = (("header", _Header), ("length", ctypes.c_uint))


class Datagrams:
    """Room for so many datagrams at a time, of so many bytes at most, with one message each."""

    def __init__(self, count: int = 1024, size: int = 512) -> None:
        self._count = count
        self._size = size
        self._room = bytearray(count * size)
        self._message = Struct(f"=I{size - 4}x")  # each starts with its length
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        self._vectors = (_Vector * count)()
        self._received = (_Received * count)()
        for index, vector in enumerate(self._vectors):
            vector.base, vector.length = first + index * size, size
            header = self._received[index].header
            header.vectors, header.vector_count = ctypes.pointer(vector), 1

    def read(self, link: socket.socket) -> list[bytes]:
        """The datagrams in the buffer, in order; none are left."""
        found: list[bytes] = []
        received = self._count
        while received == self._count:
            received = self._receive(link)
            starts = range(0, received * self._size, self._size)
            data = bytes(memoryview(self._room)[: received * self._size])
            lengths = [length for (length,) in self._message.iter_unpack(data)]
            if max(lengths, default=0) > self._size:
                raise OSError(errno.EMSGSIZE, "an answer is longer than expected")
            found += [data[at : at + length] for at, length in zip(starts, lengths, strict=True)]
        return found

    def _receive(self, link: socket.socket) -> int:
        """Receive what there is room for; how many datagrams that was."""
        received: int = _libc.recvmmsg(
            link.fileno(), self._received, self._count, socket.MSG_DONTWAIT, None
        )
        if received >= 0:
            return received
        error = ctypes.get_errno()
        if error == errno.EAGAIN:
            return 0
        raise OSError(error, os.strerror(error))
