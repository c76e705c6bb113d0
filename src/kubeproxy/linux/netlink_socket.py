"""Netlink sockets: requests in, answers or the kernel's refusals out.

The kernel handles a request while it is being sent: when `send` returns, the answers wait in the
receive buffer. So nothing here waits for anything, and a missing answer is an error at once.
Errors are `OSError`s here: who asks knows the object, and says so in a `NetlinkError`.
"""

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from itertools import islice

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    Message,
    decode,
    encode,
)
from kubeproxy.linux.netlink.nfnetlink import MessageError, dump_error, refusal
from kubeproxy.linux.understood import NONSENSE

# linux/netlink.h and asm-generic/socket.h; Python's socket module lacks them.
SOL_NETLINK = 270
NETLINK_ADD_MEMBERSHIP = 1
NETLINK_DROP_MEMBERSHIP = 2
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33

_SEND_BUFFER = 1 << 26
_RECEIVE_BUFFER = 1 << 23
_DATAGRAM = 1 << 16  # the kernel never puts more than 32 KB into one
_ATTEMPTS = 5
# Requests in one send: enough to make the system call cheap, few enough that all their refusals
# fit into a receive buffer that could not be enlarged.
_AT_ONCE = 256


class NetlinkError(KernelError):
    """The kernel refused what was asked of it; `errno` says why."""

    def __init__(self, what: str, error: OSError, advice: str = "") -> None:
        super().__init__(f"{what}: {error.strerror}{f': {advice}' if advice else ''}")
        self.errno = error.errno or 0


def open_netlink(protocol: int) -> socket.socket:
    """A socket that never blocks, explains refusals, and has room."""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    link.setblocking(False)
    link.bind((0, 0))
    link.setsockopt(SOL_NETLINK, _NETLINK_EXT_ACK, 1)
    link.setsockopt(SOL_NETLINK, _NETLINK_CAP_ACK, 1)
    _enlarge(link, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER)
    _enlarge(link, _SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    return link


def ask(link: socket.socket, request: Message) -> list[Message]:
    """Send a request that asks for a dump or an acknowledgement; the answers before the end of it.

    A dump during which something changed is made again.
    """
    for _ in range(_ATTEMPTS):
        link.send(encode(request))
        answers = list(_waiting(link))
        last = answers.pop() if answers else None
        if last is None or last.type not in {NLMSG_DONE, NLMSG_ERROR}:
            raise _incomplete()
        failure = _failure_in(last)
        if failure not in {0, errno.EINTR}:
            raise OSError(failure, os.strerror(failure))
        if not failure and not any(answer.flags & NLM_F_DUMP_INTR for answer in answers):
            return answers
    raise OSError(errno.EINTR, "it changes faster than it can be listed")


def tell(link: socket.socket, requests: Sequence[Message]) -> dict[int, OSError]:
    """Send many requests, in order; those that are refused, by their place.

    Each is carried out by itself, whatever became of the others.
    """
    refused: dict[int, OSError] = {}
    remaining = iter(requests)
    done = 0
    while chunk := list(islice(remaining, _AT_ONCE)):
        for place, error in _tell(link, chunk):
            refused[done + place] = error
        done += len(chunk)
    return refused


def _tell(link: socket.socket, requests: list[Message]) -> Iterator[tuple[int, OSError]]:
    """The kernel answers when it refuses, and after the last, which asks for it."""
    last = len(requests)
    link.send(
        b"".join(
            encode(Message(kind, flags | NLM_F_ACK if number == last else flags, number, payload))
            for number, (kind, flags, _, payload, _) in enumerate(requests, 1)
        )
    )
    sequence = 0
    for answer in _waiting(link):
        sequence = answer.sequence
        try:
            error = refusal(answer)
        except NONSENSE as nonsense:
            raise _senseless() from nonsense
        if error is None:
            continue
        if not 0 <= error.index < last:
            raise _senseless()
        yield error.index, _as_os_error(error)
    if sequence != last:
        raise _incomplete()


def _waiting(link: socket.socket) -> Iterator[Message]:
    buffer = memoryview(bytearray(_DATAGRAM))
    while True:
        try:
            size = link.recv_into(buffer)
        except BlockingIOError:
            return
        yield from decode(bytes(buffer[:size]))


def _failure_in(last: Message) -> int:
    try:
        return dump_error(last)
    except NONSENSE as nonsense:
        raise _senseless() from nonsense


def _senseless() -> OSError:
    return OSError(errno.EBADMSG, "the kernel's answer makes no sense")


def _incomplete() -> OSError:
    return OSError(errno.ENOBUFS, "the kernel's answer is not complete")


def _as_os_error(error: MessageError) -> OSError:
    text = os.strerror(error.errno) + (f" ({error.text})" if error.text else "")
    return OSError(error.errno, text)


def _enlarge(link: socket.socket, force: int, ask_for: int, size: int) -> None:
    """Make a buffer that large, or as large as the machine's limit allows."""
    try:
        link.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:  # not an administrator of the first user namespace
        link.setsockopt(socket.SOL_SOCKET, ask_for, size)
