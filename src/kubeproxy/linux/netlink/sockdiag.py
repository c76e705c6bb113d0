"""One TCP socket of this machine, by its two ends, and its owner (linux/inet_diag.h)."""

import struct

from kubeproxy.base.inet import Family, family_of, pack
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_REQUEST, Message

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20

_TCP = 6
_ANY_STATE = _ANY = 0xFFFFFFFF
_AF = {Family.IPV4: 2, Family.IPV6: 10}
_HEAD = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states
_PORTS = struct.Struct("!HH")
_REST = struct.Struct("=III")  # device, and a cookie that fits every socket
_ADDRESS = 16
_ANSWER = struct.Struct("=xB62xI")  # family, state; timers, ends, three counts; user
_LISTENS = 10


def socket_request(own: tuple[str, int], other: tuple[str, int]) -> Message:
    """Ask for the socket with these two ends, of one family; ENOENT says that there is none."""
    ports = _PORTS.pack(own[1], other[1])
    ends = b"".join(pack(address).ljust(_ADDRESS, b"\0") for address, _ in (own, other))
    head = _HEAD.pack(_AF[family_of(own[0])], _TCP, 0, 0, _ANY_STATE)
    payload = head + ports + ends + _REST.pack(0, _ANY, _ANY)
    return Message(SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_ACK, 0, payload)


def user_in(message: Message) -> int | None:
    """The user who owns the socket in the answer; None when it has no other end.

    Where no socket has the two ends, the kernel names one that listens at the first of them.
    """
    state, user = _ANSWER.unpack_from(message.payload)
    return None if state == _LISTENS else int(user)
