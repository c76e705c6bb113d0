"""Families, protocols, addresses and prefixes: values only, free to be imported by all.

An address is its canonical text (`10.0.0.1`, `fd00::1`), so that equality of values is equality
of addresses and one string is shared by all users. Parsing is as lenient as
upstream's: octets with leading zeros are decimal, a prefix may have host bits set.
"""

from collections.abc import Sequence
from enum import Enum, IntEnum
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton  # pure functions, no I/O

import msgspec


class Family(Enum):
    """An IP family. One forwarding table and one dataplane exist for each."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"

    __hash__ = object.__hash__  # by identity, as they compare; that of Enum is slow

    @property
    def bits(self) -> int:
        """How many bits an address has."""
        return 32 if self is Family.IPV4 else 128

    @property
    def other(self) -> "Family":
        """The other of the two."""
        return Family.IPV6 if self is Family.IPV4 else Family.IPV4


class Protocol(IntEnum):
    """A transport protocol that a Service can name; the value is the protocol number."""

    TCP = 6
    UDP = 17
    SCTP = 132


PROTOCOL_BY_NAME = {protocol.name: protocol for protocol in Protocol}


class Prefix(msgspec.Struct, frozen=True, order=True):
    """A network prefix with its host bits cleared."""

    address: str
    length: int

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"

    @property
    def family(self) -> Family:
        """The family of the prefix."""
        return family_of(self.address)


def family_of(address: str) -> Family:
    """The family of a canonical address."""
    return Family.IPV6 if ":" in address else Family.IPV4


def pack(address: str) -> bytes:
    """The bytes of a canonical address, in network order."""
    return inet_pton(AF_INET6 if ":" in address else AF_INET, address)


def pack_all(addresses: Sequence[str]) -> list[bytes]:
    """`pack` for many addresses of one family, which is quicker than one at a time."""
    family = AF_INET6 if addresses and ":" in addresses[0] else AF_INET
    return [inet_pton(family, address) for address in addresses]


def unpack(packed: bytes) -> str:
    """The canonical text of 4 or 16 bytes; an IPv4-mapped IPv6 address is IPv4."""
    if len(packed) == 4:
        return inet_ntop(AF_INET, packed)
    if packed.startswith(_MAPPED):
        return inet_ntop(AF_INET, packed[12:])
    return inet_ntop(AF_INET6, packed)


_MAPPED = bytes(10) + b"\xff\xff"


def parse_address(text: str) -> str | None:
    """The canonical form of an address, or None when the text is none."""
    try:
        if ":" in text:
            return unpack(inet_pton(AF_INET6, text))
        inet_pton(AF_INET, text)  # refuses leading zeros: what it takes is canonical already
    except (OSError, ValueError):
        return _parse_sloppily(text)
    return text


def parse_addresses(texts: Sequence[str], family: Family) -> list[str | None]:
    """`parse_address` for many texts; None also for an address of the other family.

    Where all is in order, as nearly always, this takes half the time.
    """
    if family is Family.IPV4:
        try:
            for text in texts:
                inet_pton(AF_INET, text)
        except (OSError, ValueError):
            pass
        else:
            return list(texts)
    parsed = map(parse_address, texts)
    return [each if each is not None and family_of(each) is family else None for each in parsed]


def _parse_sloppily(text: str) -> str | None:
    """An address whose IPv4 octets have leading zeros, which count as decimal."""
    head, colon, tail = text.rpartition(":")
    octets = tail.split(".")
    if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
        return None
    stripped = head + colon + ".".join(octet.lstrip("0") or "0" for octet in octets)
    try:
        parsed = IPv6Address(stripped) if colon else IPv4Address(stripped)
    except AddressValueError:
        return None
    return unpack(parsed.packed)


def parse_prefix(text: str) -> Prefix | None:
    """The prefix that the text names, host bits cleared, or None when it names none."""
    head, slash, tail = text.partition("/")
    address = parse_address(head)
    digits = tail.lstrip("0")  # however many: Python reads no more than some thousand digits
    if not slash or address is None or not (tail.isascii() and tail.isdigit()) or len(digits) > 3:
        return None
    length = int(digits or "0")
    family = family_of(address)
    if ":" in head and family is Family.IPV4:  # an IPv4-mapped network counts as IPv4
        length -= 96
    if not 0 <= length <= family.bits:
        return None
    return network(address, length)


def network(address: str, length: int) -> Prefix:
    """The prefix of that length which holds the address."""
    packed = pack(address)
    host_bits = 8 * len(packed) - length
    masked = int.from_bytes(packed, "big") >> host_bits << host_bits
    return Prefix(unpack(masked.to_bytes(len(packed), "big")), length)


def contains(prefix: Prefix, address: str) -> bool:
    """Whether the address lies in the prefix; never across families."""
    base, packed = pack(prefix.address), pack(address)
    if len(base) != len(packed):
        return False
    host_bits = 8 * len(packed) - prefix.length
    return int.from_bytes(packed, "big") >> host_bits == int.from_bytes(base, "big") >> host_bits


def join(address: str, port: int) -> str:
    """`address:port`, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
