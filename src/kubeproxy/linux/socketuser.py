"""The owner of a connection from this machine: the kernel knows the user of each socket.

One TCP socket is requested by its two ends (linux/inet_diag.h).
"""

import struct
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Protocol, family_of, pack, parse_address
from kubeproxy.linux.netlink.message import AF, NLM_F_ACK, NLM_F_REQUEST, Message
from kubeproxy.linux.netlink_socket import Link, decoding

Address = tuple[str, int]

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_ANY_STATE = _ANY = 0xFFFFFFFF
# Family, protocol, extensions, padding, states; device, and a cookie that fits every socket.
_HEAD, _REST = struct.Struct("=BBBBI"), struct.Struct("=III")
_PORTS = struct.Struct("!HH")
_ADDRESS = 16
_ANSWER = struct.Struct("=xB62xI")  # family, state; timers, ends, three counts; user
_LISTENS = 10


def socket_user(own: Address, other: Address) -> int | None:
    """The user whose TCP socket has these two ends; None when it is not on this machine.

    None as well where that cannot be found out, so that no user is taken for another.
    """
    what = "cannot read the owner of a socket"
    try:
        with Link(_NETLINK_SOCK_DIAG) as link, decoding(what):
            return user_in(*link.request(socket_request(own, other), what))
    except KernelError:
        return None


def socket_request(own: Address, other: Address) -> Message:
    """Ask for the socket with these two ends, of one family; ENOENT says that there is none.

    An IPv4 client of a socket for both families has an IPv4 socket.
    """
    first, second = (parse_address(address) or address for address, _ in (own, other))
    payload = _HEAD.pack(AF[family_of(first)], Protocol.TCP, 0, 0, _ANY_STATE)
    payload += _PORTS.pack(own[1], other[1])
    payload += pack(first).ljust(_ADDRESS, b"\0") + pack(second).ljust(_ADDRESS, b"\0")
    payload += _REST.pack(0, _ANY, _ANY)
    return Message(_SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_ACK, 0, payload)


def user_in(message: Message) -> int | None:
    """The user that owns the socket in the answer; None when it has no other end.

    Where no socket has the two ends, the kernel names one that listens at the first of them.
    """
    state, user = _ANSWER.unpack_from(message.payload)
    return None if state == _LISTENS else int(user)
