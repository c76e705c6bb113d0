"""Connection tracking entries: those of UDP, listed and deleted; and events of new ones.

A busy node has 100,000 entries and more, and thousands of new ones a second, so an entry is
matched against a template of the layout that the kernel always writes. Decoding the attributes
costs five times as much; `plain_flow` and `plain_connection` do that for any layout, and are what
the templates are tested against.
"""

import re
import struct
from typing import NamedTuple

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.message import AF, ATTRIBUTE, HEADER, NLM_F_DUMP, Message, attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFNL_SUBSYS_CTNETLINK, message

# The multicast group with every new entry.
NFNLGRP_CONNTRACK_NEW = 1

IPCTNL_MSG_CT_NEW = NFNL_SUBSYS_CTNETLINK << 8 | 0
IPCTNL_MSG_CT_GET = NFNL_SUBSYS_CTNETLINK << 8 | 1
IPCTNL_MSG_CT_DELETE = NFNL_SUBSYS_CTNETLINK << 8 | 2

CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_STATUS, CTA_ID, CTA_ZONE = 1, 2, 3, 12, 18
CTA_FILTER, CTA_STATUS_MASK = 25, 26
CTA_TUPLE_IP, CTA_TUPLE_PROTO = 1, 2
CTA_IP_V4_SRC, CTA_IP_V4_DST, CTA_IP_V6_SRC, CTA_IP_V6_DST = 1, 2, 3, 4
CTA_PROTO_NUM, CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT = 1, 2, 3
CTA_FILTER_ORIG_FLAGS = 1

_FILTER_BY_PROTOCOL = struct.pack("=I", 1 << 3)
_NESTED = 0x8000
_U32 = struct.Struct("!I")

# The status of an entry.
IPS_SEEN_REPLY, IPS_ASSURED, IPS_SRC_NAT, IPS_DST_NAT = 1 << 1, 1 << 2, 1 << 4, 1 << 5
IPS_DYING, IPS_HELPER, IPS_OFFLOAD = 1 << 9, 1 << 13, 1 << 14
_UDP = bytes([Protocol.UDP])

# The attributes for the source and the destination, and how long an address is.
_ADDRESS = {
    AF[Family.IPV4]: (CTA_IP_V4_SRC, CTA_IP_V4_DST, 4),
    AF[Family.IPV6]: (CTA_IP_V6_SRC, CTA_IP_V6_DST, 16),
}


class Flow(NamedTuple):
    """A UDP flow that the kernel tracks.

    The client sent to the `destination`, and the `responder` is expected to answer: address and
    port in network order. `entry` is the kernel's own entry.
    """

    destination: bytes
    responder: bytes
    entry: bytes


class Connection(NamedTuple):
    """A tracked connection: as its first packet was sent, and as the replies are expected.

    All ends are address and port in network order. The client sent to the destination; the
    responder answers to the source that it has seen.
    """

    protocol: int
    client: bytes
    destination: bytes
    responder: bytes
    seen: bytes


Dialled = tuple[bytes, bytes, bytes]
"""Address, protocol and port that a client sent to, in network order."""


def dump_request(family: Family) -> Message:
    """Ask for the UDP entries of a family.

    Kernels before 5.8 do not know the filter and send all protocols; reading skips these.
    """
    proto = nested(CTA_TUPLE_PROTO, attribute(CTA_PROTO_NUM, _UDP))
    # Of all attributes the filter has to say that it is nested.
    by_protocol = attribute(CTA_FILTER_ORIG_FLAGS, _FILTER_BY_PROTOCOL)
    payload = nested(CTA_TUPLE_ORIG, proto) + nested(CTA_FILTER | _NESTED, by_protocol)
    return message(IPCTNL_MSG_CT_GET, AF[family], payload, NLM_F_DUMP)


def offloaded_request(family: Family) -> Message:
    """Ask for the entries of a family whose connections a flowtable forwards.

    Kernels before 5.19 do not know the filter and send all; `status_in` tells.
    """
    bit = _U32.pack(IPS_OFFLOAD)
    payload = attribute(CTA_STATUS, bit) + attribute(CTA_STATUS_MASK, bit)
    return message(IPCTNL_MSG_CT_GET, AF[family], payload, NLM_F_DUMP)


def status_in(entry: bytes) -> int:
    """The status of an entry, as bits."""
    found = attributes(entry[NFGENMSG.size :])
    return int.from_bytes(found.get(CTA_STATUS, b""))


def delete_request(flow: Flow) -> Message:
    """Ask for the deletion of the entry.

    It is named by its reply direction, in which the responder is: the client may have got a new
    entry to a better one meanwhile, which has the same original direction and often even the same
    id. Without a direction the kernel would delete every entry.
    """
    found = attributes(flow.entry[NFGENMSG.size :])
    payload = nested(CTA_TUPLE_REPLY, found[CTA_TUPLE_REPLY])
    for kind in (CTA_ZONE, CTA_ID):
        if kind in found:
            payload += attribute(kind, found[kind])
    return message(IPCTNL_MSG_CT_DELETE, flow.entry[0], payload)


class TcpConnection(NamedTuple):
    """A connection of TCP as its client sees it: address and port of both, in network order."""

    client: bytes
    destination: bytes


def forget_request(family: Family, connection: TcpConnection) -> Message:
    """Ask for the deletion of the entry of a connection."""
    payload = _original(AF[family], Protocol.TCP, *connection)
    return message(IPCTNL_MSG_CT_DELETE, AF[family], payload)


def entry_request(connection: Connection) -> Message:
    """Ask for the entry of a connection; ENOENT says that there is none."""
    family = next(each for each, of in _ADDRESS.items() if of[2] == len(connection.client) - 2)
    payload = _original(family, connection.protocol, connection.client, connection.destination)
    return message(IPCTNL_MSG_CT_GET, family, payload)


def _original(family: int, protocol: int, client: bytes, to: bytes) -> bytes:
    """The original direction of a connection, as what a request is about."""
    source, destination, size = _ADDRESS[family]
    addresses = attribute(source, client[:size]) + attribute(destination, to[:size])
    proto = nested(
        CTA_TUPLE_PROTO | _NESTED,
        attribute(CTA_PROTO_NUM, bytes([protocol])),
        attribute(CTA_PROTO_SRC_PORT, client[size:]),
        attribute(CTA_PROTO_DST_PORT, to[size:]),
    )
    return nested(CTA_TUPLE_ORIG | _NESTED, nested(CTA_TUPLE_IP | _NESTED, addresses), proto)


def flow_in(answer: Message) -> Flow | None:
    """The flow in an answer; None when it is of another kind or protocol."""
    if answer.type != IPCTNL_MSG_CT_NEW:
        return None
    entry = answer.payload
    match = _FLOW_LAYOUTS[entry[0]].match(entry, _ENTRY_AT)
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
    """Where the client of a new connection sent to; None when there are no ports.

    An event is what one read of the socket gives: the kernel sends each by itself. This is
    cheap, because most events are ignored; `connection_in` decodes everything.
    """
    match = _EVENT_LAYOUTS[event[HEADER.size]].match(event, _EVENT_AT)
    if match is not None:
        address, protocol, port = match.group(2, 3, 5)
        return address, protocol, port
    connection = plain_connection(event[HEADER.size :])
    if connection is None:
        return None
    to = connection.destination
    return to[:-2], bytes([connection.protocol]), to[-2:]


def connection_in(event: bytes) -> Connection | None:
    """The new connection in an event; None when it has no ports."""
    match = _EVENT_LAYOUTS[event[HEADER.size]].match(event, _EVENT_AT)
    if match is None:
        return plain_connection(event[HEADER.size :])
    client, to, protocol, client_port, to_port, *reply = match.groups()
    responder, seen, _, responder_port, seen_port = reply
    ends = client + client_port, to + to_port, responder + responder_port, seen + seen_port
    return Connection(protocol[0], *ends)


def plain_connection(entry: bytes) -> Connection | None:
    """The connection of an entry, whatever the order of its attributes; None without ports."""
    found = attributes(entry[NFGENMSG.size :])
    source_at, destination_at, _ = _ADDRESS[entry[0]]
    ends = []
    for kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY):
        direction = attributes(found[kind])
        addresses = attributes(direction[CTA_TUPLE_IP])
        proto = attributes(direction[CTA_TUPLE_PROTO])
        if CTA_PROTO_SRC_PORT not in proto:  # ICMP
            return None
        ends.append(addresses[source_at] + proto[CTA_PROTO_SRC_PORT])
        ends.append(addresses[destination_at] + proto[CTA_PROTO_DST_PORT])
    return Connection(proto[CTA_PROTO_NUM][0], *ends)


def _layout(family: int, protocol: bytes, client: bytes, server: bytes) -> re.Pattern[bytes]:
    """Both directions of an entry; of the ends, `(%s)` is in a group and `%s` is not."""
    source_at, destination_at, width = _ADDRESS[family]
    address = b".{%d}" % width
    ip_size, proto_size = 2 * (4 + width), 3 * 8
    directions = ((CTA_TUPLE_ORIG, client, server), (CTA_TUPLE_REPLY, server, client))
    parts: list[bytes] = []
    for kind, source, destination in directions:
        parts += (
            _head(kind | _NESTED, 4 + ip_size + 4 + proto_size),
            _head(CTA_TUPLE_IP | _NESTED, ip_size),
            _head(source_at, width) + source % address,
            _head(destination_at, width) + destination % address,
            _head(CTA_TUPLE_PROTO | _NESTED, proto_size),
            _head(CTA_PROTO_NUM, 1) + protocol + b"...",
            _head(CTA_PROTO_SRC_PORT, 2) + source % b".." + b"..",
            _head(CTA_PROTO_DST_PORT, 2) + destination % b".." + b"..",
        )
    return re.compile(b"".join(parts), re.DOTALL)


def _head(kind: int, size: int) -> bytes:
    """The header of an attribute, as a pattern."""
    return re.escape(ATTRIBUTE.pack(ATTRIBUTE.size + size, kind))


_FLOW_LAYOUTS = {each: _layout(each, re.escape(_UDP), b"%s", b"(%s)") for each in _ADDRESS}
_EVENT_LAYOUTS = {each: _layout(each, b"(.)", b"(%s)", b"(%s)") for each in _ADDRESS}
_ENTRY_AT = NFGENMSG.size
_EVENT_AT = HEADER.size + NFGENMSG.size
