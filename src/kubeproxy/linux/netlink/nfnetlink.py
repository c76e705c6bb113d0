"""Nfnetlink: the messages of netfilter's subsystems, and batches of them.

A batch is one transaction: the kernel takes all of it or nothing. Message types carry their
subsystem already, so that they go into a header as they are.
"""

import struct
from collections.abc import Sequence
from itertools import accumulate

from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink.message import Message, attributes, encode

NETLINK_NETFILTER = 12

NFNL_SUBSYS_CTNETLINK, NFNL_SUBSYS_ULOG, NFNL_SUBSYS_IPSET = 1, 4, 6
NFNL_SUBSYS_ACCT, NFNL_SUBSYS_NFTABLES = 7, 10
NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END = 16, 17

NFPROTO_UNSPEC, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6 = 0, 1, 2, 10

# Sets (linux/netfilter/ipset/ip_set.h).
IPSET_CMD_LIST = NFNL_SUBSYS_IPSET << 8 | 7
IPSET_ATTR_PROTOCOL, IPSET_ATTR_SETNAME, IPSET_ATTR_FLAGS = 1, 2, 6
IPSET_FLAG_LIST_SETNAME = 1 << 1

# Packet counters of iptables rules (linux/netfilter/nfnetlink_acct.h).
NFNL_MSG_ACCT_NEW = NFNL_SUBSYS_ACCT << 8 | 0
NFNL_MSG_ACCT_GET = NFNL_SUBSYS_ACCT << 8 | 1
NFNL_MSG_ACCT_DEL = NFNL_SUBSYS_ACCT << 8 | 3
NFACCT_NAME, NFACCT_PKTS, NFACCT_BYTES = 1, 2, 3

NFGENMSG = struct.Struct("!BBH")
_U16 = struct.Struct("=H")
_U32 = struct.Struct("=I")
_BATCH_GENID = struct.Struct("=HH4s")
_NFNL_BATCH_GENID = 1
_FLAGS_AT = 6
_SEQUENCE_AT = 8


def message(kind: int, family: int, payload: bytes = b"", flags: int = 0) -> Message:
    """One message of a subsystem. Its sequence number is 0."""
    return Message(kind, nl.NLM_F_REQUEST | flags, 0, NFGENMSG.pack(family, 0, 0) + payload)


def request(kind: int, family: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """One message of a subsystem as bytes."""
    return encode(message(kind, family, payload, flags))


def attributes_in(answer: Message) -> dict[int, bytes]:
    """The attributes of a message of a subsystem."""
    return attributes(answer.payload[NFGENMSG.size :])


def batch(
    messages: Sequence[bytes], generation: int | None = None, *, rehearse: bool = False
) -> bytearray:
    """The messages as one transaction, ready to be sent in one piece.

    A rehearsal has no end: the kernel checks all of it, and then forgets it.

    Message i gets the sequence number i + 1, so that a refusal names its message; 0 is the batch.
    The last message asks for an answer: the kernel drops a batch that it cannot read without
    one, and silence is then no success. With a generation the kernel refuses the batch when the
    rules have been changed since.
    """
    begins = b""
    if generation is not None:
        number = generation.to_bytes(4, "big")
        begins = _BATCH_GENID.pack(_BATCH_GENID.size, _NFNL_BATCH_GENID, number)
    begin = _bracket(NFNL_MSG_BATCH_BEGIN, begins)
    end = b"" if rehearse else _bracket(NFNL_MSG_BATCH_END)
    data = bytearray().join((begin, *messages, end))
    starts = list(accumulate(map(len, messages), initial=len(begin)))
    for sequence, start in enumerate(starts[: len(messages)] if rehearse else starts, 1):
        _U32.pack_into(data, start + _SEQUENCE_AT, sequence)
    flags_at = starts[max(len(messages) - 1, 0)] + _FLAGS_AT
    (flags,) = _U16.unpack_from(data, flags_at)
    _U16.pack_into(data, flags_at, flags | nl.NLM_F_ACK)
    return data


# How much longer a batch is than its messages.
BATCH_OVERHEAD = 2 * (nl.HEADER.size + NFGENMSG.size) + _BATCH_GENID.size


def _bracket(kind: int, payload: bytes = b"") -> bytes:
    """The message that begins or ends a batch."""
    body = NFGENMSG.pack(NFPROTO_UNSPEC, 0, NFNL_SUBSYS_NFTABLES) + payload
    return encode(Message(kind, nl.NLM_F_REQUEST, 0, body))
