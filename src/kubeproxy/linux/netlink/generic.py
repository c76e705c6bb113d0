"""Generic netlink: subsystems that the kernel numbers as they are loaded.

A subsystem has a name; its number is the type of its messages, and has to be requested.
"""

import struct

from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_REQUEST, Message, attributes

NETLINK_GENERIC = 16

_HEADER = struct.Struct("=BBxx")  # command, version
_NUMBER = struct.Struct("=H")
_VERSION = 1

_GENL_ID_CTRL = 0x10
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2


def request(kind: int, command: int, payload: bytes = b"", flags: int = 0) -> Message:
    """A command to the subsystem of that number. Its sequence number is 0."""
    return Message(kind, NLM_F_REQUEST | flags, 0, _HEADER.pack(command, _VERSION) + payload)


def number_request(name: str) -> Message:
    """Ask for the number of the subsystem of that name; ENOENT says that there is none."""
    payload = text(_CTRL_ATTR_FAMILY_NAME, name)
    return request(_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, payload, NLM_F_ACK)


def number_in(message: Message) -> int:
    """The number in the answer."""
    return int(_NUMBER.unpack(body(message)[_CTRL_ATTR_FAMILY_ID])[0])


def body(message: Message) -> dict[int, bytes]:
    """The attributes after the command."""
    return attributes(message.payload[_HEADER.size :])
