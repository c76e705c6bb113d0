"""Rtnetlink: devices and their addresses (linux/if_link.h, linux/if_addr.h)."""

import struct
import sys
from typing import NamedTuple

from kubeproxy.base.inet import Family, family_of, pack, unpack
from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.message import Message, attributes

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22

# Multicast groups: devices, and addresses, that are added and removed.
RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR = 1, 5, 9

_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, device
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, changed flags
_IFLA_IFNAME, _IFLA_MTU, _IFLA_TXQLEN, _IFLA_LINKINFO = 3, 4, 13, 18
_IFLA_INFO_KIND = 1
IFF_LOOPBACK = 0x8
ARPHRD_ETHER = 1
_NEW = nl.NLM_F_REQUEST | nl.NLM_F_CREATE | nl.NLM_F_EXCL


class AddressChange(NamedTuple):
    """An address that was added to a device, or removed from it."""

    address: str
    is_there: bool


class Device(NamedTuple):
    """A network device. `kind` is "" for one that is not virtual; `type` is that of its link."""

    name: str
    kind: str
    type: int
    flags: int
    mtu: int = 0


def devices_request() -> Message:
    """Ask for every network device."""
    return Message(RTM_GETLINK, nl.NLM_F_REQUEST | nl.NLM_F_DUMP, 0, _device(0))


def device_of(message: Message) -> Device:
    """The device that a message describes."""
    _, type_, _, flags, _ = _IFINFOMSG.unpack_from(message.payload)
    found = attributes(message.payload[_IFINFOMSG.size :])
    name = found[_IFLA_IFNAME].rstrip(b"\0").decode()
    mtu = int.from_bytes(found.get(_IFLA_MTU, b""), sys.byteorder)
    return Device(name, kind_in(message), type_, flags, mtu)


def addresses_request(family: Family) -> Message:
    """Ask for every address of the family on every interface."""
    payload = _IFADDRMSG.pack(nl.AF[family], 0, 0, 0, 0)
    return Message(RTM_GETADDR, nl.NLM_F_REQUEST | nl.NLM_F_DUMP, 0, payload)


def change_in(message: Message, family: Family) -> AddressChange | None:
    """The address that was added or removed; None for a message of another kind or family."""
    is_address = message.type in {RTM_NEWADDR, RTM_DELADDR}
    if not is_address or message.payload[:1] != bytes([nl.AF[family]]):
        return None
    found = attributes(message.payload[_IFADDRMSG.size :])
    # On a point-to-point link ADDRESS is the peer's; LOCAL is ours.
    packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    return AddressChange(unpack(packed), message.type == RTM_NEWADDR) if packed else None


def device_in(message: Message) -> int:
    """The index of the device whose address was added or removed."""
    return int(_IFADDRMSG.unpack_from(message.payload)[4])


def add_address_request(device: int, address: str) -> Message:
    """Give a device an address, without a network around it; EEXIST says that it has it."""
    return Message(RTM_NEWADDR, _NEW, 0, _single(device, address))


def remove_address_request(device: int, address: str) -> Message:
    """Take such an address from a device; EADDRNOTAVAIL says that it does not have it."""
    return Message(RTM_DELADDR, nl.NLM_F_REQUEST, 0, _single(device, address))


def _single(device: int, address: str) -> bytes:
    family = family_of(address)
    packed = pack(address)
    head = _IFADDRMSG.pack(nl.AF[family], family.bits, 0, 0, device)
    return head + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)


def new_dummy_request(name: str) -> Message:
    """Make a dummy device: down, and without a queue. EEXIST says that the name is taken."""
    payload = _device(0) + text(_IFLA_IFNAME, name) + attribute(_IFLA_TXQLEN, bytes(4))
    payload += nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "dummy"))
    return Message(RTM_NEWLINK, _NEW | nl.NLM_F_ACK, 0, payload)


def device_request(index: int) -> Message:
    """Ask for a device."""
    return Message(RTM_GETLINK, nl.NLM_F_REQUEST | nl.NLM_F_ACK, 0, _device(index))


def delete_device_request(index: int) -> Message:
    """Delete a device."""
    return Message(RTM_DELLINK, nl.NLM_F_REQUEST | nl.NLM_F_ACK, 0, _device(index))


def _device(index: int) -> bytes:
    return _IFINFOMSG.pack(0, 0, index, 0, 0)


def kind_in(message: Message) -> str:
    """The kind of the device in a message; "" for one that is not virtual."""
    found = attributes(message.payload[_IFINFOMSG.size :])
    about = attributes(found.get(_IFLA_LINKINFO, b""))
    return about.get(_IFLA_INFO_KIND, b"").rstrip(b"\0").decode()
