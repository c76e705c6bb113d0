"""Connection tracking entries: the request for those of UDP, the answer, and their deletion.

A busy node has 100,000 entries and more, so an answer is matched against a template of the layout
that the kernel always writes. Taking the attributes apart costs five times as much; `plain_flow`
does that for any layout, and is what the template is tested against.
"""

import re
import struct
from typing import NamedTuple

from kubeproxy.inet import Family, Protocol
from kubeproxy.netlink.attribute import attribute, nested
from kubeproxy.netlink.message import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    attributes,
)
from kubeproxy.netlink.nfnetlink import (
    NFGENMSG,
    NFNL_SUBSYS_CTNETLINK,
    NFPROTO_IPV4,
    NFPROTO_IPV6,
)

IPCTNL_MSG_CT_NEW = NFNL_SUBSYS_CTNETLINK << 8 | 0
IPCTNL_MSG_CT_GET = NFNL_SUBSYS_CTNETLINK << 8 | 1
IPCTNL_MSG_CT_DELETE = NFNL_SUBSYS_CTNETLINK << 8 | 2

_CTA_TUPLE_ORIG = 1
_CTA_TUPLE_REPLY = 2
_CTA_ID = 12
_CTA_ZONE = 18
_CTA_FILTER = 25

_CTA_TUPLE_IP = 1
_CTA_TUPLE_PROTO = 2
_CTA_PROTO_NUM = 1
_CTA_PROTO_SRC_PORT = 2
_CTA_PROTO_DST_PORT = 3

_CTA_FILTER_ORIG_FLAGS = 1
_FILTER_BY_PROTOCOL = struct.pack("=I", 1 << 3)

_NESTED = 0x8000
_UDP = bytes([Protocol.UDP])
_NFPROTO = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}

# The attributes for the source and the destination, and how long an address is.
_ADDRESS = {NFPROTO_IPV4: (1, 2, 4), NFPROTO_IPV6: (3, 4, 16)}


class Flow(NamedTuple):
    """A UDP flow that the kernel tracks.

    `destination` is whom the client sent to and `responder` who is expected to answer, both as
    address and port in network order. `entry` is what the kernel said of it.
    """

    destination: bytes
    responder: bytes
    entry: bytes


def dump_request(family: Family, sequence: int) -> Message:
    """Ask for the UDP entries of a family.

    Kernels before 5.8 do not know the filter and send all protocols; reading skips these.
    """
    proto = nested(_CTA_TUPLE_PROTO, attribute(_CTA_PROTO_NUM, _UDP))
    payload = b"".join(
        (
            NFGENMSG.pack(_NFPROTO[family], 0, 0),
            nested(_CTA_TUPLE_ORIG, proto),
            # Of all attributes this one has to say that it is nested.
            nested(_CTA_FILTER | _NESTED, attribute(_CTA_FILTER_ORIG_FLAGS, _FILTER_BY_PROTOCOL)),
        )
    )
    return Message(IPCTNL_MSG_CT_GET, NLM_F_REQUEST | NLM_F_DUMP, sequence, payload)


def delete_request(flow: Flow, sequence: int) -> Message:
    """Ask for the deletion of the entry.

    It is named by its reply direction, in which the responder is: the client may have got a new
    entry to a better one meanwhile, which has the same original direction and often even the same
    id. Without a direction the kernel would delete every entry.
    """
    found = attributes(flow.entry[NFGENMSG.size :])
    reply = nested(_CTA_TUPLE_REPLY, found[_CTA_TUPLE_REPLY])
    payload = NFGENMSG.pack(flow.entry[0], 0, 0) + reply
    for kind in (_CTA_ZONE, _CTA_ID):
        if kind in found:
            payload += attribute(kind, found[kind])
    return Message(IPCTNL_MSG_CT_DELETE, NLM_F_REQUEST, sequence, payload)


def flow_in(message: Message) -> Flow | None:
    """The flow that a message tells of; None when it is of another kind or protocol."""
    if message.type != IPCTNL_MSG_CT_NEW:
        return None
    entry = message.payload
    match = _LAYOUTS[entry[0]].match(entry)
    if match is None:
        return plain_flow(entry)
    address, port, responder, responder_port = match.groups()
    return Flow(address + port, responder + responder_port, entry)


def plain_flow(entry: bytes) -> Flow | None:
    """The flow of an entry, whatever the order of its attributes; None when it is not UDP."""
    found = attributes(entry[NFGENMSG.size :])
    source_at, destination_at, _ = _ADDRESS[entry[0]]
    original = attributes(found[_CTA_TUPLE_ORIG])
    reply = attributes(found[_CTA_TUPLE_REPLY])
    original_ports = attributes(original[_CTA_TUPLE_PROTO])
    reply_ports = attributes(reply[_CTA_TUPLE_PROTO])
    if original_ports[_CTA_PROTO_NUM] != _UDP:
        return None
    return Flow(
        attributes(original[_CTA_TUPLE_IP])[destination_at] + original_ports[_CTA_PROTO_DST_PORT],
        attributes(reply[_CTA_TUPLE_IP])[source_at] + reply_ports[_CTA_PROTO_SRC_PORT],
        entry,
    )


def _layout(family: int) -> re.Pattern[bytes]:
    """The start of a UDP entry: both directions, the wanted address and port in groups."""
    any_generation = b".{%d}" % NFGENMSG.size
    original = _tuple_layout(_CTA_TUPLE_ORIG, family, b"%s", b"(%s)")
    reply = _tuple_layout(_CTA_TUPLE_REPLY, family, b"(%s)", b"%s")
    return re.compile(any_generation + original + reply, re.DOTALL)


def _tuple_layout(kind: int, family: int, source: bytes, destination: bytes) -> bytes:
    source_at, destination_at, width = _ADDRESS[family]
    address = b".{%d}" % width
    ip = _head(source_at, width) + source % address
    ip += _head(destination_at, width) + destination % address
    proto = _head(_CTA_PROTO_NUM, 1) + re.escape(_UDP) + b"..."
    proto += _head(_CTA_PROTO_SRC_PORT, 2) + source % b".." + b".."
    proto += _head(_CTA_PROTO_DST_PORT, 2) + destination % b".." + b".."
    ip_size, proto_size = 2 * (4 + width), 3 * 8
    return b"".join(
        (
            _head(kind | _NESTED, 4 + ip_size + 4 + proto_size),
            _head(_CTA_TUPLE_IP | _NESTED, ip_size),
            ip,
            _head(_CTA_TUPLE_PROTO | _NESTED, proto_size),
            proto,
        )
    )


def _head(kind: int, size: int) -> bytes:
    """The header of an attribute, as a pattern."""
    return re.escape(struct.pack("=HH", 4 + size, kind))


_LAYOUTS = {family: _layout(family) for family in _ADDRESS}
