"""Interface addresses: the request for all of them, and the answer."""

import struct

from kubeproxy.inet import Family, unpack
from kubeproxy.netlink.message import NLM_F_DUMP, NLM_F_REQUEST, Message, attributes

RTM_NEWADDR = 20
RTM_GETADDR = 22

# Multicast groups that tell of addresses that come and go.
RTMGRP_IPV4_IFADDR = 0x10
RTMGRP_IPV6_IFADDR = 0x100

_IFADDRMSG = struct.Struct("=BBBBI")
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_AF = {Family.IPV4: 2, Family.IPV6: 10}


def dump_request(family: Family, sequence: int) -> Message:
    """Ask for every address of the family on every interface."""
    payload = _IFADDRMSG.pack(_AF[family], 0, 0, 0, 0)
    return Message(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, sequence, payload)


def address_in(message: Message, family: Family) -> str | None:
    """The address that a message tells of; None when it is of another kind or family."""
    if message.type != RTM_NEWADDR or message.payload[:1] != bytes([_AF[family]]):
        return None
    found = attributes(message.payload[_IFADDRMSG.size :])
    # On a point-to-point link ADDRESS is the peer's; LOCAL is ours.
    packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    return unpack(packed) if packed else None
