"""The netfilter socket: transactions in, refusals and dumps out."""

import ctypes
import errno
import os
import socket
from collections.abc import Iterable, Sequence
from functools import cached_property
from struct import Struct
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink import nfnetlink as nf
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text, u32
from kubeproxy.linux.netlink.message import WHOLE_BATCH, Message, MessageError, attributes
from kubeproxy.linux.netlink_socket import Link, Subscription, decoding, tolerating

_ANSWER_COST: Final = 1 << 13
_ERROR_TYPE: Final = nl.NLMSG_ERROR.to_bytes(2, "little")
# What the kernel keeps of the send buffer for itself (netlink_sendmsg).
_SEND_RESERVE: Final = 32

_ADVICE: Final = {
    errno.EOPNOTSUPP: "the kernel lacks nf_tables or nf_conntrack_netlink; load that module",
}

_libc = ctypes.CDLL(None, use_errno=True)
_IOVEC: Final = Struct("@PN")  # where a buffer is, and its size
# struct mmsghdr: an address, its length, the buffers and their number; control data and flags;
# how many bytes were received.
_MMSGHDR: Final = Struct("@PIPNPNi0PI0P")


class GenerationChanged(KernelError):
    """Another process changed the rules since the generation that the batch was made for."""


class Datagrams:
    """All datagrams in the buffer of a netlink socket, with few system calls: recvmmsg.

    Python lacks it. Reading the answers about a quarter of a million elements takes half the
    time that a call for each of them takes. There is room for so many datagrams at a time, of so
    many bytes at most, with one message each.
    """

    def __init__(self, count: int = 1024, size: int = 512) -> None:
        self._count = count
        self._size = size
        self._message = Struct(f"=I{size - 4}x")  # each starts with its length
        self._room = bytearray(count * size)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        vectors = b"".join(_IOVEC.pack(first + at, size) for at in range(0, count * size, size))
        self._vectors = ctypes.create_string_buffer(vectors)
        first = ctypes.addressof(self._vectors)
        places = range(first, first + len(vectors), _IOVEC.size)
        headers = b"".join(_MMSGHDR.pack(0, 0, at, 1, 0, 0, 0, 0) for at in places)
        self._headers = ctypes.create_string_buffer(headers)

    def read(self, link: socket.socket) -> list[bytes]:
        """The datagrams in the buffer, in order; none are left."""
        found: list[bytes] = []
        received = self._count
        while received == self._count:
            received = _libc.recvmmsg(
                link.fileno(), self._headers, self._count, socket.MSG_DONTWAIT, None
            )
            if received < 0:
                number = ctypes.get_errno()
                if number != errno.EAGAIN:
                    raise OSError(number, os.strerror(number))
                break
            starts = range(0, received * self._size, self._size)
            data = bytes(memoryview(self._room)[: received * self._size])
            lengths = [length for (length,) in self._message.iter_unpack(data)]
            if max(lengths, default=0) > self._size:
                raise OSError(errno.EMSGSIZE, "an answer is longer than expected")
            found += [data[at : at + length] for at, length in zip(starts, lengths, strict=True)]
        return found


class Nfnetlink(Link):
    """One netfilter socket.

    `port_id` marks the changes made here in the notifications of a `Subscription`.
    """

    def __init__(self) -> None:
        super().__init__(nf.NETLINK_NETFILTER, _ADVICE)
        self.port_id: int = self._socket.getsockname()[0]

    @property
    def max_batch(self) -> int:
        """How many bytes of messages one `commit` can take.

        128 MB with CAP_NET_ADMIN in the first user namespace, twice net.core.wmem_max without.
        """
        room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return room - _SEND_RESERVE - nf.BATCH_OVERHEAD

    @property
    def max_answers(self) -> int:
        """How many objects one `get_each` can request: each answer has a buffer of its own."""
        return max(1, self.receive_buffer // _ANSWER_COST)

    def commit(self, messages: Sequence[bytes], generation: int | None = None) -> None:
        """Carry out the messages as one transaction: all of them, or none and `Refused`.

        Together they may have `max_batch` bytes. With a generation it is `GenerationChanged` when
        another process changed the rules since.
        """
        if not messages:
            return
        what = f"cannot commit {len(messages)} nftables messages"
        errors, answered, lost = self._send_batch(nf.batch(messages, generation), what)
        if any(error.errno == errno.ERESTART for error in errors):
            raise GenerationChanged(f"{what}: another process changed the rules; read them again")
        if lost:
            errors.append(MessageError(WHOLE_BATCH, errno.ENOBUFS, "further errors were lost"))
        if not errors and not answered:
            errors.append(MessageError(WHOLE_BATCH, errno.EBADMSG, "the kernel cannot read it"))
        if errors:
            raise self.error(what, *errors)

    def rehearse(self, messages: Sequence[bytes]) -> None:
        """Have the kernel check the messages, and change nothing; `Refused` says what is wrong."""
        what = f"cannot rehearse {len(messages)} nftables messages"
        errors, _, _ = self._send_batch(nf.batch(messages, rehearse=True), what)
        if errors:
            raise self.error(what, *errors)

    def _send_batch(self, data: bytearray, what: str) -> tuple[list[MessageError], bool, bool]:
        """The refusals in the order of the messages; whether there are answers; or lost ones."""
        self.send(data, what)
        found = list(self.received())
        answers = [each for each in found if each and each.type == nl.NLMSG_ERROR]
        with decoding(what):
            errors = [error for error in map(nl.refusal, answers) if error is not None]
        return sorted(errors, key=lambda error: error.index), bool(answers), None in found

    def generation(self) -> int:
        """How many transactions this network namespace has seen, of all processes."""
        with decoding("cannot read the generation of the rules"):
            return nft.generation_in(self.get(nft.NFT_MSG_GETGEN, nf.NFPROTO_UNSPEC))

    def get(self, message_type: int, family: int, payload: bytes = b"") -> Message:
        """Read one object; `Refused` with ENOENT when there is none."""
        what = f"cannot read nfnetlink objects {message_type:#x}"
        with decoding(what):
            return self.request(nf.message(message_type, family, payload), what)[0]

    def dump(self, message_type: int, family: int, payload: bytes = b"") -> list[Message]:
        """Read all objects; again when they change while they are being listed."""
        what = f"cannot dump nfnetlink objects {message_type:#x}"
        return self.request(nf.message(message_type, family, payload, nl.NLM_F_DUMP), what)

    def get_each(self, message_type: int, family: int, payload: bytes) -> list[bytes]:
        """Read several objects at once: the answers as they are, in the order of the request.

        `Refused` when one is missing. Answers are not decoded, because there are many.
        """
        what = f"cannot read nfnetlink objects {message_type:#x}"
        self.send(nf.request(message_type, family, payload), what)
        try:
            answers = self._datagrams.read(self._socket)
        except OSError as error:
            raise self.failed(what, error) from error
        for answer in answers:
            if answer[4:6] == _ERROR_TYPE:
                with decoding(what):
                    refused = nl.refusal(*nl.decode(answer))
                if refused is not None:
                    raise self.error(what, refused)
        return answers

    @cached_property
    def _datagrams(self) -> Datagrams:
        return Datagrams()


class NftablesChanges(Subscription):
    """Every change of nftables in this network namespace, of all processes.

    A message is an object that was added or removed, or a new generation (NFT_MSG_NEWGEN, the end
    of a transaction).

    A subscription makes commits expensive: the kernel makes a message of some 4 KB for each set
    element before it sends the first, whichever process commits. A fill of 240,000 elements takes
    2 to 12 s instead of 0.5 s, and a GB of kernel memory. So pause it around a large commit, and
    compare `Nfnetlink.generation()` afterwards: it counts one for each commit, and any further
    one is of another process.
    """

    def __init__(self) -> None:
        super().__init__(nf.NETLINK_NETFILTER, nft.NFNLGRP_NFTABLES)


def read_counters(family: int, table: str, names: Iterable[str]) -> dict[str, int]:
    """The packets of each named counter of a table; those that do not exist are left out."""
    found: dict[str, int] = {}
    with Nfnetlink() as kernel:
        for name in names:
            named = text(nft.NFTA_OBJ_TABLE, table) + text(nft.NFTA_OBJ_NAME, name)
            payload = named + u32(nft.NFTA_OBJ_TYPE, nft.NFT_OBJECT_COUNTER)
            what = f"cannot read the counter {name}"
            with tolerating(errno.ENOENT), decoding(what):
                answer = kernel.get(nft.NFT_MSG_GETOBJ, family, payload)
                counter = attributes(nf.attributes_in(answer)[nft.NFTA_OBJ_DATA])
                found[name] = int.from_bytes(counter[nft.NFTA_COUNTER_PACKETS], "big")
    return found
