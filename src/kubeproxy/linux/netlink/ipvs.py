"""Virtual servers and the real servers behind them: the values, and their bytes (kernel's ip_vs).

ip_vs is a subsystem of generic netlink. These have a name, and a number that the kernel gives
them as they are loaded: it is the type of their messages, and has to be requested.

Numbers are in host byte order, ports and addresses in network order. Virtual servers of firewall
marks have no address; they are not ours, and reading skips them.
"""

import struct
from functools import lru_cache
from typing import Final, NamedTuple, assert_never

import msgspec

from kubeproxy.base.inet import Family, Protocol, family_of, join, pack, unpack
from kubeproxy.linux.netlink import message as nl
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.message import Message, attributes

NETLINK_GENERIC: Final = 16
FAMILY_NAME: Final = "IPVS"
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 0x10, 3, 1, 2

PERSISTENT: Final = 0x1
SOURCE_PORT: Final = 0x10
"""In the hash of the scheduler mh: the client's port counts, not only its address."""

IP_VS_SVC_F_HASHED: Final = 0x2  # the kernel's own: it has put the server into its table
IP_VS_CONN_F_MASQ: Final = 0

IPVS_CMD_NEW_SERVICE, IPVS_CMD_SET_SERVICE = 1, 2
IPVS_CMD_DEL_SERVICE, IPVS_CMD_GET_SERVICE = 3, 4
IPVS_CMD_NEW_DEST, IPVS_CMD_SET_DEST, IPVS_CMD_DEL_DEST, IPVS_CMD_GET_DEST = 5, 6, 7, 8
IPVS_CMD_SET_CONFIG = 12

IPVS_CMD_ATTR_SERVICE, IPVS_CMD_ATTR_DEST = 1, 2
IPVS_CMD_ATTR_TIMEOUT_TCP, IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, IPVS_CMD_ATTR_TIMEOUT_UDP = 4, 5, 6

IPVS_SVC_ATTR_AF, IPVS_SVC_ATTR_PROTOCOL, IPVS_SVC_ATTR_ADDR, IPVS_SVC_ATTR_PORT = 1, 2, 3, 4
IPVS_SVC_ATTR_FWMARK, IPVS_SVC_ATTR_SCHED_NAME, IPVS_SVC_ATTR_FLAGS = 5, 6, 7
IPVS_SVC_ATTR_TIMEOUT, IPVS_SVC_ATTR_NETMASK = 8, 9
IPVS_SVC_ATTR_STATS64 = 12  # of kernels since 4.1

IPVS_DEST_ATTR_ADDR, IPVS_DEST_ATTR_PORT, IPVS_DEST_ATTR_FWD_METHOD = 1, 2, 3
IPVS_DEST_ATTR_WEIGHT, IPVS_DEST_ATTR_U_THRESH, IPVS_DEST_ATTR_L_THRESH = 4, 5, 6
IPVS_DEST_ATTR_ACTIVE_CONNS, IPVS_DEST_ATTR_INACT_CONNS = 7, 8
IPVS_DEST_ATTR_ADDR_FAMILY = 11

IPVS_STATS_ATTR_CONNS = 1

_HEADER = struct.Struct("=BBxx")  # command, version
_VERSION = 1
_U16 = struct.Struct("=H")
_U32 = struct.Struct("=I")
_FLAGS_AND_MASK = struct.Struct("=II")
_EVERY_FLAG = 0xFFFFFFFF
_AF_INET6 = _U16.pack(nl.AF[Family.IPV6])
_WHOLE_ADDRESS = {Family.IPV4: 0xFFFFFFFF, Family.IPV6: 128}


class ServerKey(NamedTuple):
    """What identifies a virtual server."""

    protocol: Protocol
    address: str
    port: int

    def __str__(self) -> str:
        return f"{join(self.address, self.port)}/{self.protocol.name}"


class VirtualServer(msgspec.Struct, frozen=True, gc=False):
    """What a virtual server is set to; `timeout` is that of the persistence, in seconds."""

    scheduler: str = "rr"
    flags: int = 0
    timeout: int = 0


class RealKey(NamedTuple):
    """What identifies a real server among those of its virtual server."""

    address: str
    port: int

    def __str__(self) -> str:
        return join(self.address, self.port)


class RealServer(msgspec.Struct, frozen=True, gc=False):
    """A real server as the kernel lists it: its weight, and how many connections it has."""

    weight: int = 1
    active: int = 0
    inactive: int = 0


class AddServer(msgspec.Struct, frozen=True, gc=False):
    """Make a virtual server."""

    key: ServerKey
    server: VirtualServer


class SetServer(msgspec.Struct, frozen=True, gc=False):
    """Change a virtual server; its real servers and connections stay."""

    key: ServerKey
    server: VirtualServer


class DeleteServer(msgspec.Struct, frozen=True, gc=False):
    """Delete a virtual server with its real servers."""

    key: ServerKey


class AddReal(msgspec.Struct, frozen=True, gc=False):
    """Put a real server behind a virtual one."""

    key: ServerKey
    real: RealKey
    weight: int = 1


class SetReal(msgspec.Struct, frozen=True, gc=False):
    """Give a real server another weight; with 0 it gets no new connections."""

    key: ServerKey
    real: RealKey
    weight: int = 1


class DeleteReal(msgspec.Struct, frozen=True, gc=False):
    """Remove a real server."""

    key: ServerKey
    real: RealKey


Command = AddServer | SetServer | DeleteServer | AddReal | SetReal | DeleteReal

_COMMANDS: dict[type[Command], tuple[int, str]] = {
    AddServer: (IPVS_CMD_NEW_SERVICE, "add the virtual server"),
    SetServer: (IPVS_CMD_SET_SERVICE, "change the virtual server"),
    DeleteServer: (IPVS_CMD_DEL_SERVICE, "delete the virtual server"),
    AddReal: (IPVS_CMD_NEW_DEST, "add the real server"),
    SetReal: (IPVS_CMD_SET_DEST, "change the real server"),
    DeleteReal: (IPVS_CMD_DEL_DEST, "delete the real server"),
}


def describe(command: Command) -> str:
    """The command in words: what an error says could not be done."""
    words = _COMMANDS[type(command)][1]
    if isinstance(command, AddReal | SetReal | DeleteReal):
        return f"{words} {command.real} of {command.key}"
    return f"{words} {command.key}"


def request(kind: int, command: int, payload: bytes = b"", flags: int = 0) -> Message:
    """A command to the subsystem of that number. Its sequence number is 0."""
    return Message(kind, nl.NLM_F_REQUEST | flags, 0, _HEADER.pack(command, _VERSION) + payload)


def body(message: Message) -> dict[int, bytes]:
    """The attributes after the command."""
    return attributes(message.payload[_HEADER.size :])


def number_request() -> Message:
    """Ask for the number of ip_vs; ENOENT says that the kernel has none."""
    name = text(CTRL_ATTR_FAMILY_NAME, FAMILY_NAME)
    return request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, name, nl.NLM_F_ACK)


def number_in(message: Message) -> int:
    """The number in the answer."""
    return int(_U16.unpack(body(message)[CTRL_ATTR_FAMILY_ID])[0])


def command_request(kind: int, command: Command) -> Message:
    """The command as a message. Only a refusal is answered."""
    match command:
        case AddReal() | SetReal():  # first, because most commands are these
            payload = _named(command.key) + _real(command.real, command.weight)
        case DeleteReal():
            payload = _named(command.key) + _real(command.real, 0)
        case AddServer() | SetServer():
            payload = _server(command.key, *_settings(command.key, command.server))
        case DeleteServer():
            payload = _named(command.key)
        case _:
            assert_never(command)
    return request(kind, _COMMANDS[type(command)][0], payload)


def servers_request(kind: int) -> Message:
    """Ask for all virtual servers."""
    return request(kind, IPVS_CMD_GET_SERVICE, flags=nl.NLM_F_DUMP)


def server_request(kind: int, key: ServerKey) -> Message:
    """Ask for one virtual server; ESRCH says that there is none."""
    return request(kind, IPVS_CMD_GET_SERVICE, _named(key), nl.NLM_F_ACK)


def reals_request(kind: int, key: ServerKey) -> Message:
    """Ask for the real servers of a virtual one; of one that is not there, none come."""
    return request(kind, IPVS_CMD_GET_DEST, _named(key), nl.NLM_F_DUMP)


def timeouts_request(kind: int, tcp: int, tcp_fin: int, udp: int) -> Message:
    """Set after how many idle seconds connections are forgotten; 0 leaves one as it is."""
    payload = attribute(IPVS_CMD_ATTR_TIMEOUT_TCP, _U32.pack(tcp))
    payload += attribute(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, _U32.pack(tcp_fin))
    payload += attribute(IPVS_CMD_ATTR_TIMEOUT_UDP, _U32.pack(udp))
    return request(kind, IPVS_CMD_SET_CONFIG, payload, nl.NLM_F_ACK)


def _server(key: ServerKey, *settings: bytes) -> bytes:
    """The attributes that identify a virtual server, and those that it is set to."""
    return nested(
        IPVS_CMD_ATTR_SERVICE,
        attribute(IPVS_SVC_ATTR_AF, _U16.pack(nl.AF[family_of(key.address)])),
        attribute(IPVS_SVC_ATTR_PROTOCOL, _U16.pack(key.protocol)),
        attribute(IPVS_SVC_ATTR_ADDR, pack(key.address)),
        attribute(IPVS_SVC_ATTR_PORT, key.port.to_bytes(2, "big")),
        *settings,
    )


_named = lru_cache(maxsize=1)(_server)  # a virtual server's real servers come one after another


def _settings(key: ServerKey, server: VirtualServer) -> tuple[bytes, ...]:
    return (
        text(IPVS_SVC_ATTR_SCHED_NAME, server.scheduler),
        attribute(IPVS_SVC_ATTR_FLAGS, _FLAGS_AND_MASK.pack(server.flags, _EVERY_FLAG)),
        attribute(IPVS_SVC_ATTR_TIMEOUT, _U32.pack(server.timeout)),
        attribute(IPVS_SVC_ATTR_NETMASK, _U32.pack(_WHOLE_ADDRESS[family_of(key.address)])),
    )


def _real(real: RealKey, weight: int) -> bytes:
    """One pack for all attributes: there are ten times as many of these as of everything else."""
    packed = pack(real.address)
    layout, address_head = _REAL_LAYOUTS[len(packed)]
    port = real.port.to_bytes(2, "big")
    return layout.pack(*address_head, packed, *_PORT_HEAD, port, *_WEIGHT_HEAD, weight, *_TAIL)


def _real_layout(width: int) -> tuple[struct.Struct, tuple[int, ...]]:
    """How a real server is laid out whose address has so many bytes, and how that begins."""
    layout = struct.Struct(f"=HHHH{width}sHH2s2xHHIHHIHHIHHI")
    return layout, (layout.size, IPVS_CMD_ATTR_DEST, 4 + width, IPVS_DEST_ATTR_ADDR)


_REAL_LAYOUTS = {width: _real_layout(width) for width in (4, 16)}
_PORT_HEAD = (6, IPVS_DEST_ATTR_PORT)
_WEIGHT_HEAD = (8, IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ, 8, IPVS_DEST_ATTR_WEIGHT)
_TAIL = (8, IPVS_DEST_ATTR_U_THRESH, 0, 8, IPVS_DEST_ATTR_L_THRESH, 0)


def server_in(message: Message) -> tuple[ServerKey, VirtualServer] | None:
    """The virtual server in a message; None when it is one of a firewall mark."""
    found = attributes(body(message)[IPVS_CMD_ATTR_SERVICE])
    key = _key_in(found)
    if key is None:
        return None
    flags, _ = _FLAGS_AND_MASK.unpack(found[IPVS_SVC_ATTR_FLAGS])
    scheduler = found[IPVS_SVC_ATTR_SCHED_NAME].rstrip(b"\0").decode()
    timeout = _number(found[IPVS_SVC_ATTR_TIMEOUT])
    return key, VirtualServer(scheduler, flags & ~IP_VS_SVC_F_HASHED, timeout)


def connections_in(message: Message) -> tuple[ServerKey, int] | None:
    """How many connections the virtual server in a message has had; None as in `server_in`."""
    found = attributes(body(message)[IPVS_CMD_ATTR_SERVICE])
    key = _key_in(found)
    if key is None:
        return None
    return key, _number(attributes(found[IPVS_SVC_ATTR_STATS64])[IPVS_STATS_ATTR_CONNS])


def real_in(message: Message, family: Family) -> tuple[RealKey, RealServer]:
    """The real server in a message; `family` is that of its virtual server."""
    found = attributes(body(message)[IPVS_CMD_ATTR_DEST])
    # Through a tunnel, a real server may be of the other family; older kernels know no tunnels.
    own = found.get(IPVS_DEST_ATTR_ADDR_FAMILY)
    is_ipv6 = family is Family.IPV6 if own is None else own == _AF_INET6
    address = _address(found[IPVS_DEST_ATTR_ADDR], is_ipv6=is_ipv6)
    key = RealKey(address, int.from_bytes(found[IPVS_DEST_ATTR_PORT], "big"))
    return key, RealServer(
        weight=_number(found[IPVS_DEST_ATTR_WEIGHT]),
        active=_number(found[IPVS_DEST_ATTR_ACTIVE_CONNS]),
        inactive=_number(found[IPVS_DEST_ATTR_INACT_CONNS]),
    )


def _key_in(found: dict[int, bytes]) -> ServerKey | None:
    if IPVS_SVC_ATTR_FWMARK in found:
        return None
    protocol = Protocol(_number(found[IPVS_SVC_ATTR_PROTOCOL]))
    address = _address(found[IPVS_SVC_ATTR_ADDR], is_ipv6=found[IPVS_SVC_ATTR_AF] == _AF_INET6)
    return ServerKey(protocol, address, int.from_bytes(found[IPVS_SVC_ATTR_PORT], "big"))


def _address(packed: bytes, *, is_ipv6: bool) -> str:
    """The kernel always sends 16 bytes, of which an IPv4 address takes the first four."""
    return unpack(packed if is_ipv6 else packed[:4])


def _number(packed: bytes) -> int:
    return int.from_bytes(packed, "little")
