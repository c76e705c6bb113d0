"""What ipvs mode keeps in the kernel: virtual servers, and the device that has their addresses."""

import errno
import os
import socket
import struct

from kubeproxy.errors import KernelError
from kubeproxy.inet import Family, Protocol, family_of, join, pack
from kubeproxy.netlink.address import address_in, dump_request
from kubeproxy.netlink.attribute import attribute, nested, text
from kubeproxy.netlink.message import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    Message,
    attributes,
    decode,
    encode,
    error_number,
)

_NETLINK_GENERIC = 16
_ANSWER_SECONDS = 3.0
_DATAGRAM = 1 << 16
_ASK = NLM_F_REQUEST | NLM_F_ACK

_GENERIC = struct.Struct("=BBxx")
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 0x10, 3, 1, 2
_DELETE_SERVICE = 3
_AF = {Family.IPV4: 2, Family.IPV6: 10}

_LINK = struct.Struct("=BxHiII")
_DELETE_LINK, _GET_LINK = 17, 18
_LINK_INFO, _KIND = 18, 1
_ADDRESS_INDEX = struct.Struct("=4xI")


def delete_server(protocol: Protocol, address: str, port: int) -> None:
    """Delete a virtual server; one that is gone already is no error."""
    name = f"{join(address, port)}/{protocol.name}"
    server = nested(
        1,
        attribute(1, struct.pack("=H", _AF[family_of(address)])),
        attribute(2, struct.pack("=H", protocol)),
        attribute(3, pack(address)),
        attribute(4, port.to_bytes(2, "big")),
    )
    try:
        lookup = _GENERIC.pack(_GET_FAMILY, 1) + text(_FAMILY_NAME, "IPVS")
        (answer,) = _ask(_NETLINK_GENERIC, Message(_CONTROL, _ASK, 1, lookup))
        (kind,) = struct.unpack("=H", attributes(answer.payload[_GENERIC.size :])[_FAMILY_ID])
        body = _GENERIC.pack(_DELETE_SERVICE, 1) + server
        _ask(_NETLINK_GENERIC, Message(kind, _ASK, 1, body))
    except OSError as error:
        if error.errno not in {errno.ESRCH, errno.ENOENT}:
            raise KernelError(f"cannot delete the virtual server {name}: {error}") from error


def device_addresses(device: str) -> tuple[str, ...]:
    """The addresses of a device; none when there is no such device."""
    try:
        index = socket.if_nametoindex(device)
    except OSError:
        return ()
    found = []
    try:
        for family in Family:
            for message in _ask(socket.NETLINK_ROUTE, dump_request(family, 1)):
                address = address_in(message, family)
                if address is not None and _ADDRESS_INDEX.unpack_from(message.payload) == (index,):
                    found.append(address)
    except OSError as error:
        raise KernelError(f"cannot read the addresses of {device}: {error}") from error
    return tuple(found)


def delete_dummy(device: str) -> bool:
    """Delete a dummy device; whether there was one. One of another kind is not ours: an error."""
    try:
        index = socket.if_nametoindex(device)
    except OSError:
        return False
    body = _LINK.pack(0, 0, index, 0, 0)
    try:
        (answer,) = _ask(socket.NETLINK_ROUTE, Message(_GET_LINK, _ASK, 1, body))
        info = attributes(attributes(answer.payload[_LINK.size :]).get(_LINK_INFO, b""))
        kind = info.get(_KIND, b"").rstrip(b"\0").decode()
        if kind != "dummy":
            raise KernelError(
                f"the device {device} stays, because it is no dummy but of kind {kind or 'none'}"
            )
        _ask(socket.NETLINK_ROUTE, Message(_DELETE_LINK, _ASK, 1, body))
    except OSError as error:
        if error.errno == errno.ENODEV:
            return False
        raise KernelError(f"cannot delete the device {device}: {error}") from error
    return True


def _ask(protocol: int, request: Message) -> list[Message]:
    """Send a request; its answers up to the acknowledgement, or the end of the dump."""
    found: list[Message] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as link:
        link.settimeout(_ANSWER_SECONDS)
        link.send(encode(request))
        while True:
            for message in decode(link.recv(_DATAGRAM)):
                if message.type == NLMSG_DONE:
                    return found
                if message.type == NLMSG_ERROR:
                    number = error_number(message)
                    if number:
                        raise OSError(number, os.strerror(number))
                    return found
                found.append(message)
