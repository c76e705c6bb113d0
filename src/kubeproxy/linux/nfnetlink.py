"""The netfilter socket: transactions in, refusals and dumps out."""

import errno
import socket
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.linux.datagrams import Datagrams
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text, u32
from kubeproxy.linux.netlink.message import (
    NLM_F_DUMP,
    NLMSG_ERROR,
    WHOLE_BATCH,
    Message,
    MessageError,
    attributes,
    decode,
    refusal,
)
from kubeproxy.linux.netlink.nfnetlink import (
    BATCH_OVERHEAD,
    NETLINK_NETFILTER,
    NFPROTO_UNSPEC,
    attributes_in,
    batch,
    message,
    request,
)
from kubeproxy.linux.netlink_socket import Link, Refused, decoding

_ANSWER_COST: Final = 1 << 13
_ERROR_TYPE: Final = NLMSG_ERROR.to_bytes(2, "little")
# What the kernel keeps of the send buffer for itself (netlink_sendmsg).
_SEND_RESERVE: Final = 32

_ADVICE: Final = {
    errno.EOPNOTSUPP: "the kernel lacks nf_tables or nf_conntrack_netlink; load that module",
}


class GenerationChanged(KernelError):
    """Another process changed the rules since the generation that the batch was made for."""


class Nfnetlink(Link):
    """One netfilter socket.

    `port_id` marks the changes made here in the notifications of a `Subscription`.
    """

    def __init__(self) -> None:
        super().__init__(NETLINK_NETFILTER, _ADVICE)
        self.port_id: int = self._socket.getsockname()[0]

    @property
    def max_batch(self) -> int:
        """How many bytes of messages one `commit` can take.

        128 MB with CAP_NET_ADMIN in the first user namespace, twice net.core.wmem_max without.
        """
        room = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        return room - _SEND_RESERVE - BATCH_OVERHEAD

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
        verdicts, lost = self._verdicts(batch(messages, generation), what)
        errors = _errors(verdicts)
        if any(error.errno == errno.ERESTART for error in errors):
            raise GenerationChanged(f"{what}: another process changed the rules; read them again")
        if lost:
            errors.append(MessageError(WHOLE_BATCH, errno.ENOBUFS, "further errors were lost"))
        if not errors and not verdicts:
            errors.append(MessageError(WHOLE_BATCH, errno.EBADMSG, "the kernel cannot read it"))
        if errors:
            raise self.error(what, *errors)

    def rehearse(self, messages: Sequence[bytes]) -> None:
        """Have the kernel check the messages, and change nothing; `Refused` says what is wrong."""
        what = f"cannot rehearse {len(messages)} nftables messages"
        verdicts, _ = self._verdicts(batch(messages, rehearse=True), what)
        errors = _errors(verdicts)
        if errors:
            raise self.error(what, *errors)

    def _verdicts(self, data: bytearray, what: str) -> tuple[list[MessageError | None], bool]:
        """What the kernel says of the messages of a batch, and whether some of it was lost."""
        self.send(data, what)
        found = list(self.received())
        with decoding(what):
            return [
                refusal(answer) for answer in found if answer and answer.type == NLMSG_ERROR
            ], None in found

    def generation(self) -> int:
        """How many transactions this network namespace has seen, of all processes."""
        with decoding("cannot read the generation of the rules"):
            return nft.generation_in(self.get(nft.NFT_MSG_GETGEN, NFPROTO_UNSPEC))

    def get(self, message_type: int, family: int, payload: bytes = b"") -> Message:
        """Read one object; `Refused` with ENOENT when there is none."""
        what = f"cannot read nfnetlink objects {message_type:#x}"
        with decoding(what):
            return self.request(message(message_type, family, payload), what)[0]

    def dump(self, message_type: int, family: int, payload: bytes = b"") -> list[Message]:
        """Read all objects; again when they change while they are being listed."""
        what = f"cannot dump nfnetlink objects {message_type:#x}"
        return self.request(message(message_type, family, payload, NLM_F_DUMP), what)

    def get_each(self, message_type: int, family: int, payload: bytes) -> list[bytes]:
        """Read several objects at once: the answers as they are, in the order of the request.

        `Refused` when one is missing. Answers are not decoded, because there are many.
        """
        what = f"cannot read nfnetlink objects {message_type:#x}"
        self.send(request(message_type, family, payload), what)
        try:
            answers = self._datagrams.read(self._socket)
        except OSError as error:
            raise self.failed(what, error) from error
        for answer in answers:
            if answer[4:6] == _ERROR_TYPE:
                with decoding(what):
                    refused = refusal(*decode(answer))
                if refused is not None:
                    raise self.error(what, refused)
        return answers

    @cached_property
    def _datagrams(self) -> Datagrams:
        return Datagrams()


def _errors(verdicts: Iterable[MessageError | None]) -> list[MessageError]:
    found = (error for error in verdicts if error is not None)
    return sorted(found, key=lambda error: error.index)


def read_counters(family: int, table: str, names: Iterable[str]) -> dict[str, int]:
    """The packets of each named counter of a table; those that do not exist are left out."""
    found: dict[str, int] = {}
    with Nfnetlink() as kernel:
        for name in names:
            named = text(nft.NFTA_OBJ_TABLE, table) + text(nft.NFTA_OBJ_NAME, name)
            payload = named + u32(nft.NFTA_OBJ_TYPE, nft.NFT_OBJECT_COUNTER)
            try:
                answer = kernel.get(nft.NFT_MSG_GETOBJ, family, payload)
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            with decoding(f"cannot read the counter {name}"):
                counter = attributes(attributes_in(answer)[nft.NFTA_OBJ_DATA])
                found[name] = int.from_bytes(counter[nft.NFTA_COUNTER_PACKETS], "big")
    return found
