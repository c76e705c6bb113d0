"""SOCKS5 (RFC 1928, and RFC 1929 for passwords), without I/O.

A handshake yields what to send and how many bytes to read then, and is sent those bytes.
"""

from collections.abc import Generator
from typing import NamedTuple

from kubeproxy.base.inet import pack, parse_address

SCHEMES = ("socks5", "socks5h")
"""Names are resolved by the proxy with both, as by Go programs."""
DEFAULT_PORT = 1080

_VERSION, _LOGIN_VERSION = 5, 1
_CONNECT = 1
_NO_LOGIN, _PASSWORD, _NO_WAY = 0, 2, 0xFF
_IPV4, _NAME, _IPV6 = 1, 3, 4
_SIZES = {_IPV4: 4, _IPV6: 16}
_LONGEST = 255
_REPLIES = {
    1: "a general failure",
    2: "its rules do not allow the connection",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the server refused the connection",
    6: "the time to live has expired",
    7: "the command is not supported",
    8: "the type of address is not supported",
}


class SocksError(Exception):
    """The proxy does not connect us: why."""


class Step(NamedTuple):
    """What to send, and how many bytes to read then."""

    send: bytes
    read: int


class Login(NamedTuple):
    """A user name and password."""

    user: str
    password: str


Handshake = Generator[Step, bytes, None]


def handshake(host: str, port: int, login: Login | None) -> Handshake:
    """Everything that is said until the connection leads to the host. Raises a `SocksError`."""
    ways = bytes([_NO_LOGIN] if login is None else [_NO_LOGIN, _PASSWORD])
    version, way = yield Step(bytes([_VERSION, len(ways)]) + ways, 2)
    if version != _VERSION:
        raise SocksError("something else than SOCKS5")
    if way == _NO_WAY or way not in ways:
        raise SocksError(
            "SOCKS5: it wants a user name and password"
            if login is None
            else "SOCKS5: it accepts no user name and password"
        )
    if way == _PASSWORD and login is not None:
        said = _short(login.user, "user name") + _short(login.password, "password")
        _, failure = yield Step(bytes([_LOGIN_VERSION]) + said, 2)
        if failure:
            raise SocksError("SOCKS5: it rejected the user name or password")
    request = bytes([_VERSION, _CONNECT, 0]) + _address(host) + port.to_bytes(2, "big")
    version, reply, _, type_ = yield Step(request, 4)
    if version != _VERSION:
        raise SocksError("something else than SOCKS5")
    if reply:
        raise SocksError(f"SOCKS5: {_REPLIES.get(reply, f'reply {reply}')}")
    # The address that it connected from, which says nothing to us.
    if type_ == _NAME:
        (size,) = yield Step(b"", 1)
    elif type_ in _SIZES:
        size = _SIZES[type_]
    else:
        raise SocksError(f"SOCKS5: an address of type {type_}")
    yield Step(b"", size + 2)


def _address(host: str) -> bytes:
    address = parse_address(host)
    if address is None:
        return bytes([_NAME]) + _short(host, "name of the server", "idna")
    return bytes([_IPV6 if ":" in address else _IPV4]) + pack(address)


def _short(text: str, what: str, encoding: str = "utf-8") -> bytes:
    """A text with its length before it."""
    try:
        encoded = text.encode(encoding)
    except UnicodeError as error:
        raise SocksError(f"SOCKS5: the {what} is no name") from error
    if not 0 < len(encoded) <= _LONGEST:
        raise SocksError(
            f"SOCKS5: the {what} has {len(encoded)} bytes, 1 to {_LONGEST} can be sent"
        )
    return bytes([len(encoded)]) + encoded
