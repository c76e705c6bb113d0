"""Notifications with the beginning of a packet -> who sent it to whom."""

from typing import NamedTuple

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NFNL_SUBSYS_ULOG, attributes_in

NFULNL_MSG_PACKET = NFNL_SUBSYS_ULOG << 8 | 0
NFULA_IFINDEX_INDEV, NFULA_PAYLOAD = 4, 9
MOST = 64
"""As many bytes of a packet as it takes: the ports come after 60 at most, with all options."""

_IPV4, _IPV6 = 4, 6
_PORTS = 4


class Packet(NamedTuple):
    """A packet by its ends: address and port in network order. `interface` is 0 for our own."""

    protocol: int
    client: bytes
    destination: bytes
    interface: int


def packet_in(message: Message) -> Packet | None:
    """The packet of a notification; None when it has no ports where they are looked for."""
    if message.type != NFULNL_MSG_PACKET:
        return None
    found = attributes_in(message)
    data = found.get(NFULA_PAYLOAD, b"")
    version = data[0] >> 4 if data else 0
    if version == _IPV4:
        after, protocol, source, destination = 4 * (data[0] & 15), data[9], 12, 16
        size = 4
    elif version == _IPV6:
        after, protocol, source, destination, size = 40, data[6], 8, 24, 16
    else:
        return None
    ports = data[after : after + _PORTS]
    if protocol not in set(Protocol) or len(ports) < _PORTS:
        return None
    client = data[source : source + size] + ports[:2]
    to = data[destination : destination + size] + ports[2:]
    return Packet(protocol, client, to, int.from_bytes(found.get(NFULA_IFINDEX_INDEV, b"")))
