"""Netlink sockets: requests in, answers or the kernel's refusals out; and notifications.

The kernel handles a request while it is being sent: when `send` returns, the answers are in the
receive buffer. So no request waits for anything, and a missing answer is an error at once.
Notifications go to every socket that has joined a multicast group.
"""

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Self

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink.message import WHOLE_BATCH, Message, MessageError

# linux/netlink.h and asm-generic/socket.h; Python's socket module lacks them.
_SOL_NETLINK: Final = 270
_NETLINK_ADD_MEMBERSHIP, _NETLINK_DROP_MEMBERSHIP = 1, 2
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 10, 11
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
# What is in a socket's memory (linux/sock_diag.h).
_SO_MEMINFO: Final = 55
_MEMINFO: Final = struct.Struct("=9I")
_DROPS: Final = 8
_BUFFERS: Final = (
    (_SO_SNDBUFFORCE, socket.SO_SNDBUF, 1 << 26),
    (_SO_RCVBUFFORCE, socket.SO_RCVBUF, 1 << 23),
)

_DATAGRAM: Final = 1 << 16  # the kernel never puts more than 32 KB into one
ATTEMPTS: Final = 5
# Requests in one send: enough to make the system call cheap, few enough that all their refusals
# fit into a receive buffer that could not be enlarged.
_AT_ONCE: Final = 256

_ADVICE: Final = {
    errno.EPERM: "the process needs CAP_NET_ADMIN in its network namespace",
    errno.EMSGSIZE: "it is larger than the send buffer; raise net.core.wmem_max",
    # Of the protocols that are used here, only this one can be missing.
    errno.EPROTONOSUPPORT: "the kernel lacks nfnetlink; load the module nf_tables",
}

_LOST: Final = MessageError(WHOLE_BATCH, errno.ENOBUFS, "answers were lost")

DECODING_ERRORS: Final = (LookupError, ValueError, TypeError, ArithmeticError, struct.error)
"""What decoding raises when bytes are not laid out as they should be."""


@contextlib.contextmanager
def decoding(what: str) -> Iterator[None]:
    """Around decoding an answer; `what` is what an error says could not be done.

    Once around all of an answer, so that it costs nothing for each of its parts.
    """
    try:
        yield
    except DECODING_ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        raise KernelError(f"{what}: unexpected answer ({reason})") from error


class Refused(KernelError):
    """The kernel refused a request; of a batch, nothing was done.

    `errors` names the messages that it refused, in their order; `errno` is that of the first.
    """

    def __init__(
        self, what: str, *errors: MessageError, advice: Mapping[int, str] = _ADVICE
    ) -> None:
        described = []
        for error in errors[:3]:
            text = os.strerror(error.errno) + (f" ({error.text})" if error.text else "")
            if error.index != WHOLE_BATCH:
                text = f"message {error.index}: {text}"
            elif error.errno in advice:
                text += f": {advice[error.errno]}"
            described.append(text)
        super().__init__(f"{what}: {'; '.join(described)}")
        self.errors = errors
        self.errno = errors[0].errno


@contextlib.contextmanager
def tolerating(*numbers: int) -> Iterator[None]:
    """Around requests: a refusal with one of these error numbers only ends the block."""
    try:
        yield
    except Refused as error:
        if error.errno not in numbers:
            raise


class Link:
    """One netlink socket. Not for two threads at a time.

    `advice` says for some of the kernel's errors what can be done about them.
    """

    def __init__(self, protocol: int, advice: Mapping[int, str] | None = None) -> None:
        self._advice = {**_ADVICE, **(advice or {})}
        self._buffer = memoryview(bytearray(_DATAGRAM))
        try:
            self._socket = open_netlink(protocol)
        except OSError as error:
            raise self.failed("cannot open a netlink socket", error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """For `poll`."""
        return self._socket.fileno()

    @property
    def receive_buffer(self) -> int:
        """How many bytes of kernel memory may wait to be read before messages are lost."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)

    @property
    def lost(self) -> int:
        """How many messages were lost until now, because they came faster than they were read."""
        counted = self._socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
        return int(_MEMINFO.unpack(counted)[_DROPS])

    def request(self, request: Message, what: str) -> list[Message]:
        """The answers to a request; of an interrupted dump, those of a later attempt."""
        for _ in range(ATTEMPTS - 1):
            with tolerating(errno.EINTR):
                return list(self.answers(request, what))
        return list(self.answers(request, what))

    def answers(self, request: Message, what: str) -> Iterator[Message]:
        """Send a request and yield its answers as they are read.

        At the end of a dump during which something changed, `Refused` has the errno EINTR.
        """
        self.send(nl.encode(request), what)
        message, flags = None, 0
        for message in self.received():
            if message is None:
                raise self.error(what, _LOST)
            flags |= message.flags
            if message.type >= nl.NLMSG_MIN_TYPE:
                yield message
                continue
            with decoding(what):
                error = nl.refusal(message)
            if error is not None:
                raise self.error(what, error)
            if flags & nl.NLM_F_DUMP_INTR:
                text = "it changes faster than it can be listed"
                raise self.error(what, MessageError(WHOLE_BATCH, errno.EINTR, text))
            return
        has_end = request.flags & nl.NLM_F_ACK or request.flags & nl.NLM_F_DUMP == nl.NLM_F_DUMP
        if has_end or message is None:
            raise self.error(what, _LOST)

    def send_all(self, requests: Sequence[Message], what: str) -> dict[int, MessageError]:
        """Send many requests, in order; the errors of those that are refused, by their place.

        Each is carried out by itself, whether or not others are refused.
        """
        return {
            start + error.index: msgspec.structs.replace(error, index=WHOLE_BATCH)
            for start in range(0, len(requests), _AT_ONCE)
            for error in self._send_some(requests[start : start + _AT_ONCE], what)
        }

    def _send_some(self, requests: Sequence[Message], what: str) -> Iterator[MessageError]:
        """The kernel answers when it refuses, and after the last, which asks for it."""
        last = len(requests)
        numbered = (
            Message(kind, flags | nl.NLM_F_ACK if number == last else flags, number, payload)
            for number, (kind, flags, _, payload, _) in enumerate(requests, 1)
        )
        self.send(b"".join(map(nl.encode, numbered)), what)
        sequence = 0
        for answer in self.received():
            if answer is None:
                raise self.error(what, _LOST)
            sequence = answer.sequence
            with decoding(what):
                error = nl.refusal(answer)
            if error is None:
                continue
            if not 0 <= error.index < last:
                raise KernelError(f"{what}: unexpected answer (it has the number {sequence})")
            yield error
        if sequence != last:
            raise self.error(what, _LOST)

    def send(self, data: bytes | bytearray, what: str) -> None:
        """Send requests; `what` is what an error says could not be done."""
        for _ in self.received():
            pass  # what an earlier request, broken off, left unread
        try:
            self._socket.send(data)
        except OSError as error:
            raise self.failed(what, error) from error

    def received(self) -> Iterator[Message | None]:
        """The messages in the receive buffer; None stands for messages that were lost."""
        while True:
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise self.failed("cannot read from a netlink socket", error) from error
                yield None
            else:
                yield from nl.decode(bytes(self._buffer[:size]))

    def error(self, what: str, *errors: MessageError) -> Refused:
        """The error to raise, with advice."""
        return Refused(what, *errors, advice=self._advice)

    def failed(self, what: str, error: OSError) -> Refused:
        """The error to raise for one of a system call."""
        return self.error(what, MessageError(WHOLE_BATCH, error.errno or 0))


class Subscription(Link):
    """A socket that gets notifications from when it is made, until it is closed or paused."""

    def __init__(self, protocol: int, *groups: int) -> None:
        super().__init__(protocol)
        self._groups = groups
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._change_membership(_NETLINK_ADD_MEMBERSHIP)
            undo.pop_all()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Get nothing for as long as the context lasts; one that is closed stays closed."""
        self._change_membership(_NETLINK_DROP_MEMBERSHIP)
        try:
            yield
        finally:
            self._change_membership(_NETLINK_ADD_MEMBERSHIP)

    async def follow(self, notify: Callable[[Message | None], None]) -> None:
        """Call `notify` with every message, until cancelled.

        None says that messages were lost: anything may have changed.
        """
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._socket, _DATAGRAM)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise self.failed("cannot read notifications", error) from error
                notify(None)
            else:
                for message in nl.decode(data):
                    notify(message)

    def _change_membership(self, change: int) -> None:
        for group in self._groups:
            try:
                self._socket.setsockopt(_SOL_NETLINK, change, group)
            except OSError as error:
                if error.errno != errno.EBADF:
                    raise self.failed("cannot subscribe to notifications", error) from error


def open_netlink(protocol: int) -> socket.socket:
    """A socket that never blocks, explains refusals, and has large buffers."""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    link.setblocking(False)
    link.bind((0, 0))
    link.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
    link.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
    for force, option, size in _BUFFERS:
        try:
            link.setsockopt(socket.SOL_SOCKET, force, size)
        except PermissionError:  # not an administrator of the first user namespace
            link.setsockopt(socket.SOL_SOCKET, option, size)  # up to the machine's limit
    return link
