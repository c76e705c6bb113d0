"""Rtnetlink: a pair of devices between two network namespaces, their addresses, and routes."""

import struct
from typing import Final

from kubeproxy.base.inet import family_of, pack
from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.route import RTM_NEWADDR, RTM_NEWLINK

RTM_NEWROUTE: Final = 24

_NEW = nl.NLM_F_REQUEST | nl.NLM_F_CREATE | nl.NLM_F_EXCL | nl.NLM_F_ACK
_IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, changed flags
_IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, device
_RTMSG = struct.Struct("=BBBBBBBBI")  # family, lengths, tos, table, protocol, scope, type, flags
_IFF_UP = 0x1
_IFLA_IFNAME, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 3, 18, 28
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_F_NODAD = 1, 2, 0x02
_RTA_GATEWAY = 5
_RT_TABLE_MAIN, _RTPROT_STATIC, _RTN_UNICAST = 254, 4, 1


def new_pair_request(name: str, peer: str, namespace: int) -> Message:
    """Make a pair of veth devices; the peer is in the namespace of that descriptor."""
    any_ = _IFINFOMSG.pack(0, 0, 0, 0, 0)
    there = any_ + text(_IFLA_IFNAME, peer)
    there += attribute(_IFLA_NET_NS_FD, struct.pack("=I", namespace))
    about = text(_IFLA_INFO_KIND, "veth")
    about += nested(_IFLA_INFO_DATA, attribute(_VETH_INFO_PEER, there))
    payload = any_ + text(_IFLA_IFNAME, name) + nested(_IFLA_LINKINFO, about)
    return Message(RTM_NEWLINK, _NEW, 0, payload)


def up_request(device: int) -> Message:
    """Have a device up; the kernel refuses that of one end of a pair that has no other yet."""
    payload = _IFINFOMSG.pack(0, 0, device, _IFF_UP, _IFF_UP)
    return Message(RTM_NEWLINK, nl.NLM_F_REQUEST | nl.NLM_F_ACK, 0, payload)


def new_address_request(device: int, address: str, length: int) -> Message:
    """Give a device an address and the network around it, without looking for another owner."""
    packed = pack(address)
    head = _IFADDRMSG.pack(nl.AF[family_of(address)], length, _IFA_F_NODAD, 0, device)
    payload = head + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
    return Message(RTM_NEWADDR, _NEW, 0, payload)


def default_route_request(gateway: str) -> Message:
    """Send everything else to a gateway."""
    route = _RT_TABLE_MAIN, _RTPROT_STATIC, 0, _RTN_UNICAST, 0
    head = _RTMSG.pack(nl.AF[family_of(gateway)], 0, 0, 0, *route)
    return Message(RTM_NEWROUTE, _NEW, 0, head + attribute(_RTA_GATEWAY, pack(gateway)))
