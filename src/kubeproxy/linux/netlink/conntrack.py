"""Connection tracking entries: those of UDP, listed and deleted; and new ones, as they are told.

A busy node has 100,000 entries and more, and thousands of new ones a second, so what the kernel
tells is matched against a template of the layout that it always writes. Taking the attributes
apart costs five times as much; `plain_flow` and `plain_connection` do that for any layout, and
are what the templates are tested against.
"""

import re
import struct
from typing import NamedTuple

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.message import (
    HEADER,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    attributes,
)
from kubeproxy.linux.netlink.nfnetlink import (
    NFGENMSG,
    NFNL_SUBSYS_CTNETLINK,
    NFPROTO_IPV4,
    NFPROTO_IPV6,
)

# The multicast group that tells of every new entry.
NFNLGRP_CONNTRACK_NEW = 1

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


class Connection(NamedTuple):
    """A tracked connection: as its first packet was sent, and as the replies are expected.

    All ends are address and port in network order. The client sent to the destination; the
    responder answers, and takes the source that it has seen for the client.
    """

    protocol: int
    client: bytes
    destination: bytes
    responder: bytes
    seen: bytes


Dialled = tuple[bytes, bytes, bytes]
"""Address, protocol and port that a client sent to, in network order."""


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
    match = _FLOW_LAYOUTS[entry[0]].match(entry)
    if match is None:
        return plain_flow(entry)
    address, port, responder, responder_port = match.groups()
    return Flow(address + port, responder + responder_port, entry)


def plain_flow(entry: bytes) -> Flow | None:
    """The flow of an entry, whatever the order of its attributes; None when it is not UDP."""
    connection = plain_connection(entry)
    if connection is None or connection.protocol != Protocol.UDP:
        return None
    return Flow(connection.destination, connection.responder, entry)


def dialled(event: bytes) -> Dialled | None:
    """Whom the client of a new connection sent to; None when there are no ports.

    An event is what one read of the socket gives: the kernel sends each by itself. This is
    cheap, so that events about others are; `connection_in` tells everything.
    """
    match = _EVENT_LAYOUTS[event[HEADER.size]].match(event)
    if match is not None:
        address, protocol, port = match.group(2, 3, 5)
        return address, protocol, port
    connection = plain_connection(event[HEADER.size :])
    if connection is None:
        return None
    to = connection.destination
    return to[:-2], bytes([connection.protocol]), to[-2:]


def connection_in(event: bytes) -> Connection | None:
    """The new connection that an event tells of; None when it has no ports."""
    match = _EVENT_LAYOUTS[event[HEADER.size]].match(event)
    if match is None:
        return plain_connection(event[HEADER.size :])
    client, to, protocol, client_port, to_port, *reply = match.groups()
    responder, seen, _, responder_port, seen_port = reply
    return Connection(
        protocol[0],
        client + client_port,
        to + to_port,
        responder + responder_port,
        seen + seen_port,
    )


def plain_connection(entry: bytes) -> Connection | None:
    """The connection of an entry, whatever the order of its attributes; None without ports."""
    found = attributes(entry[NFGENMSG.size :])
    source_at, destination_at, _ = _ADDRESS[entry[0]]
    ends = []
    for kind in (_CTA_TUPLE_ORIG, _CTA_TUPLE_REPLY):
        direction = attributes(found[kind])
        addresses = attributes(direction[_CTA_TUPLE_IP])
        proto = attributes(direction[_CTA_TUPLE_PROTO])
        if _CTA_PROTO_SRC_PORT not in proto:  # ICMP
            return None
        ends.append(addresses[source_at] + proto[_CTA_PROTO_SRC_PORT])
        ends.append(addresses[destination_at] + proto[_CTA_PROTO_DST_PORT])
    client, destination, responder, seen = ends
    return Connection(proto[_CTA_PROTO_NUM][0], client, destination, responder, seen)


class _Wanted(NamedTuple):
    """Patterns for what a direction says: `%s` where it is, in a group where it is wanted."""

    source: bytes
    destination: bytes
    protocol: bytes


def _flow_layout(family: int) -> re.Pattern[bytes]:
    """The start of a UDP entry: both directions, the wanted address and port in groups."""
    udp = re.escape(_UDP)
    original, reply = _Wanted(b"%s", b"(%s)", udp), _Wanted(b"(%s)", b"%s", udp)
    return _layout(NFGENMSG.size, family, original, reply)


def _event_layout(family: int) -> re.Pattern[bytes]:
    """The start of an event: addresses, protocol and ports in groups, there and back."""
    everything = _Wanted(b"(%s)", b"(%s)", b"(.)")
    return _layout(HEADER.size + NFGENMSG.size, family, everything, everything)


def _layout(head: int, family: int, original: _Wanted, reply: _Wanted) -> re.Pattern[bytes]:
    directions = _tuple_layout(_CTA_TUPLE_ORIG, family, original)
    directions += _tuple_layout(_CTA_TUPLE_REPLY, family, reply)
    return re.compile(_anything(head) + directions, re.DOTALL)


def _anything(size: int) -> bytes:
    return b".{%d}" % size


def _tuple_layout(kind: int, family: int, wanted: _Wanted) -> bytes:
    source_at, destination_at, width = _ADDRESS[family]
    address = _anything(width)
    ip = _head(source_at, width) + wanted.source % address
    ip += _head(destination_at, width) + wanted.destination % address
    proto = _head(_CTA_PROTO_NUM, 1) + wanted.protocol + b"..."
    proto += _head(_CTA_PROTO_SRC_PORT, 2) + wanted.source % b".." + b".."
    proto += _head(_CTA_PROTO_DST_PORT, 2) + wanted.destination % b".." + b".."
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


_FLOW_LAYOUTS = {family: _flow_layout(family) for family in _ADDRESS}
_EVENT_LAYOUTS = {family: _event_layout(family) for family in _ADDRESS}
