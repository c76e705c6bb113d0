"""The netfilter socket: transactions in, refusals and dumps out.

The kernel handles a request while it is being sent: when `send` returns, the answers wait in the
receive buffer. So nothing here waits for anything, and a missing answer is an error at once.
"""

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Self

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.datagrams import Datagrams
from kubeproxy.linux.netlink.message import (
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    Message,
    decode,
    encode,
)
from kubeproxy.linux.netlink.nfnetlink import (
    BATCH_OVERHEAD,
    NFGENMSG,
    NFPROTO_UNSPEC,
    NFT_MSG_GETGEN,
    WHOLE_BATCH,
    MessageError,
    batch,
    dump_error,
    generation_in,
    refusal,
)
from kubeproxy.linux.netlink_socket import open_netlink
from kubeproxy.linux.understood import understood

_NETLINK_NETFILTER = 12  # linux/netlink.h; Python's socket module lacks it
_DATAGRAM = 1 << 16  # the kernel never puts more than 32 KB into one
_DUMP_ATTEMPTS = 5
_ANSWER_COST = 1 << 13
_ERROR_TYPE = NLMSG_ERROR.to_bytes(2, "little")
# What the kernel keeps of the send buffer for itself (netlink_sendmsg).
_SEND_RESERVE = 32

_WHAT_TO_DO = {
    errno.EPERM: "the process needs CAP_NET_ADMIN in its network namespace",
    errno.EOPNOTSUPP: "the kernel lacks nf_tables or nf_conntrack_netlink; load that module",
    errno.EPROTONOSUPPORT: "the kernel lacks nfnetlink; load the module nf_tables",
    errno.EMSGSIZE: "it is larger than the send buffer; raise net.core.wmem_max",
}


class Refused(KernelError):
    """The kernel refused a request; of a batch, nothing was done.

    `errors` names the messages that it refused, in their order; `errno` is that of the first.
    """

    def __init__(self, what: str, *errors: MessageError) -> None:
        super().__init__(f"{what}: {'; '.join(map(_describe, errors[:3]))}")
        self.errors = errors
        self.errno = errors[0].errno


class GenerationChanged(KernelError):
    """Somebody else changed the rules since the generation that the batch was made for."""


class Nfnetlink:
    """One netfilter socket. Not for two threads at a time.

    `port_id` marks the changes made here in what a `Watch` tells.
    """

    def __init__(self) -> None:
        self._socket = open_netfilter()
        self._sequence = 0
        self.port_id: int = self._socket.getsockname()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def max_batch(self) -> int:
        """How many bytes of messages one `commit` can take.

        128 MB with CAP_NET_ADMIN in the first user namespace, twice net.core.wmem_max without.
        """
        room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return room - _SEND_RESERVE - BATCH_OVERHEAD

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        """Carry out the messages as one transaction: all of them, or none and `Refused`.

        Together they may have `max_batch` bytes. With a generation it is `GenerationChanged` when
        somebody else changed the rules since.
        """
        if not messages:
            return
        what = f"cannot commit {len(messages)} nftables messages"
        self._send(batch(messages, generation), what)
        answers, lost = self._receive()
        with understood(what):
            verdicts = [refusal(answer) for answer in answers if answer.type == NLMSG_ERROR]
        errors = sorted((v for v in verdicts if v is not None), key=lambda error: error.index)
        if any(error.errno == errno.ERESTART for error in errors):
            raise GenerationChanged(f"{what}: somebody else changed the rules; read them again")
        if lost:
            errors.append(MessageError(WHOLE_BATCH, errno.ENOBUFS, "further errors were lost"))
        if not errors and not verdicts:
            errors.append(MessageError(WHOLE_BATCH, errno.EBADMSG, "the kernel cannot read it"))
        if errors:
            raise Refused(what, *errors)

    def rehearse(self, messages: Sequence[bytes]) -> None:
        """Have the kernel check the messages, and change nothing; `Refused` says what is wrong."""
        what = f"cannot rehearse {len(messages)} nftables messages"
        self._send(batch(messages, rehearse=True), what)
        answers, _ = self._receive()
        with understood(what):
            errors = [refusal(answer) for answer in answers if answer.type == NLMSG_ERROR]
        found = sorted((e for e in errors if e is not None), key=lambda error: error.index)
        if found:
            raise Refused(what, *found)

    def generation(self) -> int:
        """How many transactions this network namespace has seen, whoever made them."""
        with understood("cannot read the generation of the rules"):
            return generation_in(self.get(NFT_MSG_GETGEN, NFPROTO_UNSPEC))

    def get(self, message_type: int, family: int, payload: bytes = b"") -> Message:
        """Ask for one object; `Refused` with ENOENT when there is none."""
        return self._ask(message_type, NLM_F_REQUEST, NFGENMSG.pack(family, 0, 0) + payload)[0]

    def dump(self, message_type: int, family: int, payload: bytes = b"") -> list[Message]:
        """Ask for all objects; again when they change while they are being listed."""
        body = NFGENMSG.pack(family, 0, 0) + payload
        what = f"cannot dump nfnetlink objects {message_type:#x}"
        for _ in range(_DUMP_ATTEMPTS):
            *found, done = self._ask(message_type, NLM_F_REQUEST | NLM_F_DUMP, body)
            with understood(what):
                failure = dump_error(done)
            if failure == 0 and not any(answer.flags & NLM_F_DUMP_INTR for answer in found):
                return found
            if failure not in {0, errno.EINTR}:
                break
        raise Refused(what, MessageError(WHOLE_BATCH, failure or errno.EINTR))

    @property
    def max_answers(self) -> int:
        """How many objects one `get_each` can ask for: each answer has a buffer of its own."""
        room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        return max(1, room // _ANSWER_COST)

    def get_each(self, message_type: int, family: int, payload: bytes) -> list[bytes]:
        """Ask for several objects at once: the answers as they are, in the order asked for.

        `Refused` when one is missing. Answers are not taken apart, because there are many.
        """
        what = f"cannot read nfnetlink objects {message_type:#x}"
        body = NFGENMSG.pack(family, 0, 0) + payload
        self._send(encode(Message(message_type, NLM_F_REQUEST, 0, body)), what)
        try:
            answers = self._datagrams.read(self._socket)
        except OSError as error:
            raise Refused(what, MessageError(WHOLE_BATCH, error.errno or 0)) from error
        for answer in answers:
            if answer[4:6] == _ERROR_TYPE:
                with understood(what):
                    error_message = refusal(*decode(answer))
                if error_message is not None:
                    raise Refused(what, error_message)
        return answers

    @cached_property
    def _datagrams(self) -> Datagrams:
        return Datagrams()

    def _ask(self, kind: int, flags: int, body: bytes) -> list[Message]:
        """Send a request; its answers, of which there is at least one."""
        what = f"cannot read nfnetlink objects {kind:#x}"
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._send(encode(Message(kind, flags, self._sequence, body)), what)
        answers, lost = self._receive()
        with understood(what):
            for answer in answers:
                error = refusal(answer) if answer.type == NLMSG_ERROR else None
                if error is not None:
                    raise Refused(what, msgspec.structs.replace(error, index=WHOLE_BATCH))
        if lost or not answers:
            raise Refused(what, MessageError(WHOLE_BATCH, errno.ENOBUFS, "answers were lost"))
        return answers

    def _send(self, data: bytes | bytearray, what: str) -> None:
        self._receive()  # what an earlier request, broken off, left unread
        send(self._socket, data, what)

    def _receive(self) -> tuple[list[Message], bool]:
        """The messages that wait to be read, and whether some were lost."""
        found = list(waiting(self._socket))
        return [message for message in found if message is not None], None in found


def open_netfilter() -> socket.socket:
    """A netfilter socket that never blocks, explains refusals, and has room."""
    try:
        return open_netlink(_NETLINK_NETFILTER)
    except OSError as error:
        raise Refused(
            "cannot open a netfilter socket", MessageError(WHOLE_BATCH, error.errno or 0)
        ) from error


def send(link: socket.socket, data: bytes | bytearray, what: str) -> None:
    """Send requests; `what` is what an error says could not be done."""
    try:
        link.send(data)
    except OSError as error:
        raise Refused(what, MessageError(WHOLE_BATCH, error.errno or 0)) from error


def waiting(link: socket.socket) -> Iterator[Message | None]:
    """The messages that wait to be read; None stands for messages that were lost."""
    buffer = memoryview(bytearray(_DATAGRAM))
    while True:
        try:
            size = link.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                what = "cannot read from the netfilter socket"
                raise Refused(what, MessageError(WHOLE_BATCH, error.errno or 0)) from error
            yield None
        else:
            yield from decode(bytes(buffer[:size]))


def _describe(error: MessageError) -> str:
    text = os.strerror(error.errno) + (f" ({error.text})" if error.text else "")
    if error.index != WHOLE_BATCH:
        return f"message {error.index}: {text}"
    advice = _WHAT_TO_DO.get(error.errno)
    return f"{text}: {advice}" if advice else text
