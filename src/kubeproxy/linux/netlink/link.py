"""Devices: what kind one is, how a dummy is made, and how a device is deleted."""

import struct

from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_REQUEST, Message, attributes

_NEW_LINK, _DEL_LINK, _GET_LINK = 16, 17, 18
_NLM_F_CREATE = 0x400
_NLM_F_EXCL = 0x200

_IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, changed flags
_ANY = _IFINFOMSG.pack(0, 0, 0, 0, 0)
_IFLA_IFNAME, _IFLA_TXQLEN, _IFLA_LINKINFO = 3, 13, 18
_IFLA_INFO_KIND = 1


def new_dummy_request(name: str) -> Message:
    """Make a dummy device: down, and without a queue. EEXIST says that the name is taken."""
    payload = b"".join(
        (
            _ANY,
            text(_IFLA_IFNAME, name),
            attribute(_IFLA_TXQLEN, bytes(4)),
            nested(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "dummy")),
        )
    )
    return Message(_NEW_LINK, NLM_F_REQUEST | _NLM_F_CREATE | _NLM_F_EXCL, 0, payload)


def link_request(index: int) -> Message:
    """Ask for a device."""
    return Message(_GET_LINK, NLM_F_REQUEST | NLM_F_ACK, 0, _IFINFOMSG.pack(0, 0, index, 0, 0))


def delete_request(index: int) -> Message:
    """Delete a device."""
    return Message(_DEL_LINK, NLM_F_REQUEST, 0, _IFINFOMSG.pack(0, 0, index, 0, 0))


def kind_in(message: Message) -> str:
    """The kind of the device that a message tells of; "" for one that is not virtual."""
    found = attributes(message.payload[_IFINFOMSG.size :])
    about = attributes(found.get(_IFLA_LINKINFO, b""))
    return about.get(_IFLA_INFO_KIND, b"").rstrip(b"\0").decode()
