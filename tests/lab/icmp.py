"""ICMP errors as the sender of a packet gets them."""

import socket
import struct

from kubeproxy.base.inet import Protocol
from lab.outcome import Fate, Outcome, Peer

RECVERR = {
    socket.AF_INET: (socket.IPPROTO_IP, 11),  # IP_RECVERR
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25),  # IPV6_RECVERR
}
_EXTENDED_ERROR = struct.Struct("=IBBBxII")  # sock_extended_err: errno, origin, type, code
_PORT_UNREACHABLE = {socket.AF_INET: (3, 3), socket.AF_INET6: (1, 4)}  # type, code
_ICMP_HEADER = 8
_IPV4_HEADER, _IPV6_HEADER = 20, 40
_PORTS = struct.Struct("!HH")


def queued_error(opened: socket.socket, sent_from: Peer) -> Outcome | None:
    """The ICMP error in the error queue of a socket, if there is one.

    SCTP has no such queue, and Linux 5.10 would read data of the connection instead.
    """
    if opened.proto == Protocol.SCTP:
        return None
    try:
        _, ancillary, _, _ = opened.recvmsg(1, 512, socket.MSG_ERRQUEUE)
    except OSError:
        return None
    data = ancillary[0][2]
    _, _, type_, code, _, _ = _EXTENDED_ERROR.unpack_from(data)
    address = data[_EXTENDED_ERROR.size :]  # a sockaddr
    packed = address[4:8] if opened.family == socket.AF_INET else address[8:24]
    return _outcome(opened.family, (type_, code), packed, sent_from)


def _outcome(family: int, kind: tuple[int, int], packed: bytes, sent_from: Peer) -> Outcome:
    by = socket.inet_ntop(family, packed)
    if kind == _PORT_UNREACHABLE[socket.AddressFamily(family)]:
        return Outcome(Fate.UNREACHABLE, sent_from, by=by)
    return Outcome(Fate.FAILED, sent_from, by=by, detail=f"ICMP type {kind[0]} code {kind[1]}")


def raw_socket(family: int) -> socket.socket:
    """A socket that gets every ICMP message to this namespace."""
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    opened = socket.socket(family, socket.SOCK_RAW, protocol)
    opened.setblocking(False)
    return opened


def raw_error(raw: socket.socket, protocol: Protocol, sent_from: Peer) -> Outcome | None:
    """The first ICMP error about a packet of that protocol from that port, if one came.

    SCTP has no error queue, and ignores an error that comes while the socket is in a call.
    """
    while True:
        try:
            data, peer = raw.recvfrom(4096)
        except BlockingIOError:
            return None
        if raw.family == socket.AF_INET:
            data = data[_IPV4_HEADER:]
            header, at = _IPV4_HEADER, 9
        else:
            header, at = _IPV6_HEADER, 6
        about = data[_ICMP_HEADER:]
        if len(about) < header + _PORTS.size or about[at] != protocol:
            continue
        if _PORTS.unpack_from(about, header)[0] == sent_from.port:
            packed = socket.inet_pton(raw.family, peer[0])
            return _outcome(raw.family, (data[0], data[1]), packed, sent_from)
