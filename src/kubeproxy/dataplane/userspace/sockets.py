"""The sockets of listeners: one for each worker, on one port."""

import ctypes
import socket
import struct
from collections.abc import Iterator
from typing import Final

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.userspace.listeners import Place
from kubeproxy.dataplane.userspace.relay import OPTIONS

ANY: Final = {Family.IPV4: "0.0.0.0", Family.IPV6: "::"}  # noqa: S104  # rules lead there
_BACKLOG: Final = 4096
_SO_ATTACH_REUSEPORT_CBPF: Final = 51
"""asm-generic/socket.h; the socket module lacks it."""
# Classic BPF: load the last word of the source address, which is so far behind the network
# header; the rest of its division by the number of sockets is the socket.
_INSTRUCTION: Final = struct.Struct("=HBBI")
_PROGRAM: Final = struct.Struct("@HP")
_NETWORK_HEADER: Final = 0xFFF00000
_SOURCE_AT: Final = {Family.IPV4: 12, Family.IPV6: 20}
_LOAD, _MODULO, _RETURN = 0x20, 0x94, 0x16


Group = list[socket.socket]


class Ports:
    """The ports that listeners may have where any will do: all, or those of a range."""

    def __init__(self, first: int, last: int) -> None:
        self._range = range(first, last + 1) if first else range(1)
        self._next = 0

    def candidates(self) -> Iterator[int]:
        """Each of them, from the one behind the last that was asked for; 0 is any."""
        for _ in self._range:
            port = self._range[self._next % len(self._range)]
            self._next += 1
            yield port


def open_sockets(family: Family, protocol: Protocol, place: Place, count: int) -> Group:
    """Sockets that share a place, of which the kernel chooses one for each connection."""
    opened: Group = []
    try:
        for _ in range(count):
            each = _open(family, protocol, place)
            opened.append(each)
            place = Place(place.address, each.getsockname()[1])
    except OSError:
        for each in opened:
            each.close()
        raise
    return opened


def _open(family: Family, protocol: Protocol, place: Place) -> socket.socket:
    is_tcp = protocol is Protocol.TCP
    kind = socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM
    number = socket.AF_INET6 if family is Family.IPV6 else socket.AF_INET
    opened = socket.socket(number, kind)
    try:
        if family is Family.IPV6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if is_tcp:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for level, option, value in OPTIONS:
                opened.setsockopt(level, option, value)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(place)
        if is_tcp:
            opened.listen(_BACKLOG)
    except OSError:
        opened.close()
        raise
    return opened


def keep_clients(opened: socket.socket, family: Family, count: int) -> None:
    """Let all connections of a client come to the same of the sockets.

    Only so does one worker know which endpoint the client has.
    """
    program = b"".join(
        (
            _INSTRUCTION.pack(_LOAD, 0, 0, _NETWORK_HEADER + _SOURCE_AT[family]),
            _INSTRUCTION.pack(_MODULO, 0, 0, count),
            _INSTRUCTION.pack(_RETURN, 0, 0, 0),
        )
    )
    buffer = ctypes.create_string_buffer(program, len(program))
    length = len(program) // _INSTRUCTION.size
    opened.setsockopt(
        socket.SOL_SOCKET,
        _SO_ATTACH_REUSEPORT_CBPF,
        _PROGRAM.pack(length, ctypes.addressof(buffer)),
    )
