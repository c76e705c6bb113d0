"""Netlink sockets: requests in, answers or the kernel's refusals out.

The kernel handles a request while it is being sent: when `send` returns, the answers are in the
receive buffer. So nothing here waits for anything, and a missing answer is an error at once.
"""

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLMSG_MIN_TYPE,
    WHOLE_BATCH,
    Message,
    MessageError,
    decode,
    encode,
    refusal,
)

# linux/netlink.h and asm-generic/socket.h; Python's socket module lacks them.
SOL_NETLINK: Final = 270
_NETLINK_CAP_ACK, _NETLINK_EXT_ACK = 10, 11
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33

DATAGRAM: Final = 1 << 16  # the kernel never puts more than 32 KB into one
ATTEMPTS: Final = 5
_SEND_BUFFER: Final = 1 << 26
_RECEIVE_BUFFER: Final = 1 << 23
# Requests in one send: enough to make the system call cheap, few enough that all their refusals
# fit into a receive buffer that could not be enlarged.
_AT_ONCE: Final = 256

_ADVICE: Final = {
    errno.EPERM: "the process needs CAP_NET_ADMIN in its network namespace",
    errno.EMSGSIZE: "it is larger than the send buffer; raise net.core.wmem_max",
    # Of the protocols that are used here, only this one can be missing.
    errno.EPROTONOSUPPORT: "the kernel lacks nfnetlink; load the module nf_tables",
}

DECODING_ERRORS: Final = (LookupError, ValueError, TypeError, ArithmeticError, struct.error)
"""What decoding raises when bytes are not laid out as they should be."""


class BadAnswer(KernelError):
    """The kernel, or a program that stands for it, answered with something unexpected."""


@contextlib.contextmanager
def decoding(what: str) -> Iterator[None]:
    """Around decoding an answer; `what` is what an error says could not be done.

    Once around all of an answer, so that it costs nothing for each of its parts.
    """
    try:
        yield
    except DECODING_ERRORS as error:
        reason = f"{type(error).__name__}: {error}"
        raise BadAnswer(f"{what}: unexpected answer ({reason})") from error


class Refused(KernelError):
    """The kernel refused a request; of a batch, nothing was done.

    `errors` names the messages that it refused, in their order; `errno` is that of the first.
    """

    def __init__(
        self, what: str, *errors: MessageError, advice: Mapping[int, str] = _ADVICE
    ) -> None:
        described = "; ".join(_describe(error, advice) for error in errors[:3])
        super().__init__(f"{what}: {described}")
        self.errors = errors
        self.errno = errors[0].errno


class Link:
    """One netlink socket. Not for two threads at a time.

    `advice` says for some of the kernel's errors what can be done about them.
    """

    def __init__(self, protocol: int, advice: Mapping[int, str] | None = None) -> None:
        self._advice = {**_ADVICE, **(advice or {})}
        self._buffer = memoryview(bytearray(DATAGRAM))
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

    def request(self, request: Message, what: str) -> list[Message]:
        """The answers to a request; of an interrupted dump, those of a later attempt."""
        attempts = ATTEMPTS
        while True:
            attempts -= 1
            try:
                return list(self.answers(request, what))
            except Refused as error:
                if error.errno != errno.EINTR or not attempts:
                    raise

    def answers(self, request: Message, what: str) -> Iterator[Message]:
        """Send a request and yield its answers as they are read.

        At the end of a dump during which something changed, `Refused` has the errno EINTR.
        """
        self.send(encode(request), what)
        message, flags = None, 0
        for message in self.received():
            if message is None:
                raise self._lost(what)
            flags |= message.flags
            if message.type >= NLMSG_MIN_TYPE:
                yield message
                continue
            with decoding(what):
                error = refusal(message)
            if error is not None:
                raise self.error(what, error)
            if flags & NLM_F_DUMP_INTR:
                text = "it changes faster than it can be listed"
                raise self.error(what, MessageError(WHOLE_BATCH, errno.EINTR, text))
            return
        has_end = request.flags & NLM_F_ACK or request.flags & NLM_F_DUMP == NLM_F_DUMP
        if has_end or message is None:
            raise self._lost(what)

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
            Message(kind, flags | NLM_F_ACK if number == last else flags, number, payload)
            for number, (kind, flags, _, payload, _) in enumerate(requests, 1)
        )
        self.send(b"".join(map(encode, numbered)), what)
        sequence = 0
        for answer in self.received():
            if answer is None:
                raise self._lost(what)
            sequence = answer.sequence
            with decoding(what):
                error = refusal(answer)
            if error is None:
                continue
            if not 0 <= error.index < last:
                raise BadAnswer(f"{what}: unexpected answer (it has the number {sequence})")
            yield error
        if sequence != last:
            raise self._lost(what)

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
                yield from decode(bytes(self._buffer[:size]))

    def error(self, what: str, *errors: MessageError) -> Refused:
        """The error to raise, with advice."""
        return Refused(what, *errors, advice=self._advice)

    def failed(self, what: str, error: OSError) -> Refused:
        """The error to raise for one of a system call."""
        return self.error(what, MessageError(WHOLE_BATCH, error.errno or 0))

    def _lost(self, what: str) -> Refused:
        """The error to raise when answers are missing."""
        return self.error(what, MessageError(WHOLE_BATCH, errno.ENOBUFS, "answers were lost"))


def open_netlink(protocol: int) -> socket.socket:
    """A socket that never blocks, explains refusals, and has large buffers."""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    link.setblocking(False)
    link.bind((0, 0))
    link.setsockopt(SOL_NETLINK, _NETLINK_EXT_ACK, 1)
    link.setsockopt(SOL_NETLINK, _NETLINK_CAP_ACK, 1)
    _enlarge(link, _SO_SNDBUFFORCE, socket.SO_SNDBUF, _SEND_BUFFER)
    _enlarge(link, _SO_RCVBUFFORCE, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    return link


def _enlarge(link: socket.socket, force: int, option: int, size: int) -> None:
    """Make a buffer that large, or as large as the machine's limit allows."""
    try:
        link.setsockopt(socket.SOL_SOCKET, force, size)
    except PermissionError:  # not an administrator of the first user namespace
        link.setsockopt(socket.SOL_SOCKET, option, size)


def _describe(error: MessageError, advice: Mapping[int, str]) -> str:
    text = os.strerror(error.errno) + (f" ({error.text})" if error.text else "")
    if error.index != WHOLE_BATCH:
        return f"message {error.index}: {text}"
    known = advice.get(error.errno)
    return f"{text}: {known}" if known else text
