"""Interface addresses: all of them as the kernel tells, and how one is added and removed."""

import struct
from typing import NamedTuple

from kubeproxy.base.inet import Family, family_of, pack, unpack
from kubeproxy.linux.netlink.attribute import attribute
from kubeproxy.linux.netlink.message import NLM_F_DUMP, NLM_F_REQUEST, Message, attributes

RTM_NEWADDR = 20
RTM_DELADDR = 21
RTM_GETADDR = 22

# Multicast groups that tell of devices, and of addresses, that come and go.
RTNLGRP_LINK = 1
RTNLGRP_IPV4_IFADDR = 5
RTNLGRP_IPV6_IFADDR = 9

_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, device
_NLM_F_CREATE = 0x400
_NLM_F_EXCL = 0x200
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_AF = {Family.IPV4: 2, Family.IPV6: 10}


def dump_request(family: Family, sequence: int) -> Message:
    """Ask for every address of the family on every interface."""
    payload = _IFADDRMSG.pack(_AF[family], 0, 0, 0, 0)
    return Message(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP, sequence, payload)


class AddressChange(NamedTuple):
    """An address that came to a device, or went from it."""

    address: str
    is_there: bool


def address_in(message: Message, family: Family) -> str | None:
    """The address that a message tells of; None when it is of another kind or family."""
    change = change_in(message, family)
    return change.address if change and change.is_there else None


def change_in(message: Message, family: Family) -> AddressChange | None:
    """The address that came or went; None when the message is of another kind or family."""
    if message.type not in {RTM_NEWADDR, RTM_DELADDR}:
        return None
    if message.payload[:1] != bytes([_AF[family]]):
        return None
    found = attributes(message.payload[_IFADDRMSG.size :])
    # On a point-to-point link ADDRESS is the peer's; LOCAL is ours.
    packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    return AddressChange(unpack(packed), message.type == RTM_NEWADDR) if packed else None


def device_in(message: Message) -> int:
    """The index of the device that a message about an address, new or gone, speaks of."""
    return int(_IFADDRMSG.unpack_from(message.payload)[4])


def add_request(device: int, address: str) -> Message:
    """Give a device an address, without a network around it; EEXIST says that it has it."""
    flags = NLM_F_REQUEST | _NLM_F_CREATE | _NLM_F_EXCL
    return Message(RTM_NEWADDR, flags, 0, _single(device, address))


def remove_request(device: int, address: str) -> Message:
    """Take such an address from a device; EADDRNOTAVAIL says that it does not have it."""
    return Message(RTM_DELADDR, NLM_F_REQUEST, 0, _single(device, address))


def _single(device: int, address: str) -> bytes:
    family = family_of(address)
    packed = pack(address)
    head = _IFADDRMSG.pack(_AF[family], family.bits, 0, 0, device)
    return head + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
