"""Nfnetlink: the messages of netfilter's subsystems, batches of them, and the kernel's refusals.

A batch is one transaction: the kernel takes all of it or nothing. Message types here carry their
subsystem already, so that they can be written into a header as they are.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from kubeproxy.linux.netlink.message import (
    HEADER,
    NLM_F_ACK,
    NLM_F_REQUEST,
    Message,
    attributes,
    encode,
)

NFNL_SUBSYS_CTNETLINK = 1
NFNL_SUBSYS_NFTABLES = 10

NFNL_MSG_BATCH_BEGIN = 16
NFNL_MSG_BATCH_END = 17

# The multicast group that tells of every change of every nftables table.
NFNLGRP_NFTABLES = 7

NFPROTO_UNSPEC = 0
NFPROTO_INET = 1
NFPROTO_IPV4 = 2
NFPROTO_IPV6 = 10

_NFT = NFNL_SUBSYS_NFTABLES << 8
NFT_MSG_NEWTABLE = _NFT | 0
NFT_MSG_GETTABLE = _NFT | 1
NFT_MSG_DELTABLE = _NFT | 2
NFT_MSG_NEWCHAIN = _NFT | 3
NFT_MSG_GETCHAIN = _NFT | 4
NFT_MSG_DELCHAIN = _NFT | 5
NFT_MSG_NEWRULE = _NFT | 6
NFT_MSG_GETRULE = _NFT | 7
NFT_MSG_DELRULE = _NFT | 8
NFT_MSG_NEWSET = _NFT | 9
NFT_MSG_GETSET = _NFT | 10
NFT_MSG_DELSET = _NFT | 11
NFT_MSG_NEWSETELEM = _NFT | 12
NFT_MSG_GETSETELEM = _NFT | 13
NFT_MSG_DELSETELEM = _NFT | 14
NFT_MSG_NEWGEN = _NFT | 15
NFT_MSG_GETGEN = _NFT | 16
NFT_MSG_TRACE = _NFT | 17
NFT_MSG_NEWOBJ = _NFT | 18
NFT_MSG_GETOBJ = _NFT | 19
NFT_MSG_DELOBJ = _NFT | 20
NFT_MSG_GETOBJ_RESET = _NFT | 21
NFT_MSG_NEWFLOWTABLE = _NFT | 22
NFT_MSG_GETFLOWTABLE = _NFT | 23
NFT_MSG_DELFLOWTABLE = _NFT | 24
NFT_MSG_GETRULE_RESET = _NFT | 25
# From kernel 6.3 on: deleting what is not there is no error.
NFT_MSG_DESTROYTABLE = _NFT | 26
NFT_MSG_DESTROYCHAIN = _NFT | 27
NFT_MSG_DESTROYRULE = _NFT | 28
NFT_MSG_DESTROYSET = _NFT | 29
NFT_MSG_DESTROYSETELEM = _NFT | 30
NFT_MSG_DESTROYOBJ = _NFT | 31
NFT_MSG_DESTROYFLOWTABLE = _NFT | 32
NFT_MSG_GETSETELEM_RESET = _NFT | 33

# With NEW*: refuse what exists, replace it, make it, put it last.
NLM_F_REPLACE = 0x100
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLM_F_APPEND = 0x800

NLMSGERR_ATTR_MSG = 1
NLMSGERR_ATTR_OFFS = 2

# In an error message: the refused message's payload is left out; attributes follow.
NLM_F_CAPPED = 0x100
NLM_F_ACK_TLVS = 0x200

# What the batch itself was refused for has this index.
WHOLE_BATCH = -1

NFGENMSG = struct.Struct("!BBH")
_ERROR = struct.Struct("=i")
_U16 = struct.Struct("=H")
_U32 = struct.Struct("=I")
_BATCH_GENID = struct.Struct("=HH4s")
_NFNL_BATCH_GENID = 1
_NFTA_GEN_ID = 1
_FLAGS_AT = 6
_SEQUENCE_AT = 8


class MessageError(msgspec.Struct, frozen=True):
    """Why one message was refused.

    `index` is its place in the batch, -1 for the batch itself. `text` is the kernel's own
    explanation ("" when it gave none) and `offset` the place of the attribute that it does not
    like, counted from the start of the message.
    """

    index: int
    errno: int
    text: str = ""
    offset: int | None = None


def request(kind: int, family: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """One message of a subsystem: attributes in, bytes out. Its sequence number is 0."""
    body = NFGENMSG.pack(family, 0, 0) + payload
    return encode(Message(kind, NLM_F_REQUEST | flags, 0, body))


def batch(
    messages: Sequence[bytes], generation: int | None = None, *, rehearse: bool = False
) -> bytearray:
    """The messages as one transaction, ready to be sent in one piece.

    A rehearsal has no end: the kernel checks all of it, and then forgets it.

    Message i gets the sequence number i + 1, so that a refusal says whom it is about; 0 is the
    batch. The last message asks for an answer: the kernel drops a batch that it cannot read
    without a word, and silence is then no success. With a generation the kernel refuses the batch
    when somebody else changed the rules since.
    """
    begin = _batch_begin(generation)
    end = b"" if rehearse else _bracket(NFNL_MSG_BATCH_END)
    data = bytearray().join((begin, *messages, end))
    starts = list(accumulate(map(len, messages), initial=len(begin)))
    for sequence, start in enumerate(starts[: len(messages)] if rehearse else starts, 1):
        _U32.pack_into(data, start + _SEQUENCE_AT, sequence)
    flags_at = starts[max(len(messages) - 1, 0)] + _FLAGS_AT
    (flags,) = _U16.unpack_from(data, flags_at)
    _U16.pack_into(data, flags_at, flags | NLM_F_ACK)
    return data


# What a batch is longer than its messages.
BATCH_OVERHEAD = 2 * (HEADER.size + NFGENMSG.size) + _BATCH_GENID.size


def _batch_begin(generation: int | None) -> bytes:
    if generation is None:
        return _bracket(NFNL_MSG_BATCH_BEGIN)
    number = generation.to_bytes(4, "big")
    return _bracket(
        NFNL_MSG_BATCH_BEGIN,
        _BATCH_GENID.pack(_BATCH_GENID.size, _NFNL_BATCH_GENID, number),
    )


def _bracket(kind: int, payload: bytes = b"") -> bytes:
    """The message that begins or ends a batch."""
    body = NFGENMSG.pack(NFPROTO_UNSPEC, 0, NFNL_SUBSYS_NFTABLES) + payload
    return encode(Message(kind, NLM_F_REQUEST, 0, body))


def refusal(message: Message) -> MessageError | None:
    """What an error message says about the message of a batch; None when it says "done"."""
    (number,) = _ERROR.unpack_from(message.payload)
    if number == 0:
        return None
    text, offset = _explanation(message)
    return MessageError(message.sequence - 1, -number, text, offset)


def dump_error(done: Message) -> int:
    """The errno with which a dump ended; 0 when all of it was listed."""
    return -int(_ERROR.unpack_from(done.payload)[0])


def _explanation(message: Message) -> tuple[str, int | None]:
    if not message.flags & NLM_F_ACK_TLVS:
        return "", None
    start = _ERROR.size
    if message.flags & NLM_F_CAPPED:
        start += HEADER.size
    else:
        (refused,) = _U32.unpack_from(message.payload, start)
        start += (refused + 3) & ~3
    found = attributes(message.payload[start:])
    text = found.get(NLMSGERR_ATTR_MSG, b"").rstrip(b"\0").decode(errors="replace")
    offset = found.get(NLMSGERR_ATTR_OFFS)
    return text, None if offset is None else int(_U32.unpack(offset)[0])


def generation_in(message: Message) -> int:
    """The generation that a NEWGEN message tells: it counts the transactions of a namespace."""
    found = attributes(message.payload[NFGENMSG.size :])
    return int.from_bytes(found[_NFTA_GEN_ID], "big")
