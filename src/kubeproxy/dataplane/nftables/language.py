"""The part of nft's language that the program needs, as typed values.

A `Selector` reads something of a packet, a `Statement` does something with it, and rules, chains
and sets are made of these. How they look as text is in `render`, and as bytes in `encode`.
"""

from enum import Enum

import msgspec

from kubeproxy.base.inet import Family, Prefix, Protocol, pack
from kubeproxy.linux.netlink import nftables as nft


class Datatype(msgspec.Struct, frozen=True):
    """A type of nft: its name, its number in set declarations, its size, and its byte order."""

    name: str
    number: int
    size: int
    host_order: bool = False


IPV4_ADDR = Datatype("ipv4_addr", 7, 4)
IPV6_ADDR = Datatype("ipv6_addr", 8, 16)
INET_PROTO = Datatype("inet_proto", 12, 1, host_order=True)
INET_SERVICE = Datatype("inet_service", 13, 2)
INTEGER = Datatype("integer", 4, 4, host_order=True)
CLASSID = Datatype("classid", 23, 4, host_order=True)
IFNAME = Datatype("ifname", 41, 16)
RANGED_CLASSID = Datatype("classid", 23, 4)
"""As it stands in sets of ranges, which the kernel compares byte by byte."""

_NETWORK, _TRANSPORT = 1, 2  # the headers that an offset into a packet is counted from
_STATE_NEW, _STATUS_DNAT = 8, 0x20  # bits of a connection's state and status
_LOCAL = 2  # a type of address


class Payload(msgspec.Struct, frozen=True):
    """Bytes of a header. `header` and `field` are nft's numbers for what they are."""

    base: int
    offset: int
    header: int
    field: int


class Meta(msgspec.Struct, frozen=True):
    """A property of the packet that is in no header."""

    key: int


class Ct(msgspec.Struct, frozen=True):
    """A property of the connection; `original` reads it as the client sent it."""

    key: int
    original: bool = False


class Fib(msgspec.Struct, frozen=True):
    """What kind of address the source is, by the routing table."""


class Numgen(msgspec.Struct, frozen=True):
    """A number below the modulus, random or the next one, plus the offset."""

    modulus: int
    random: bool = True
    offset: int = 0


class SourceHash(msgspec.Struct, frozen=True):
    """A number below the modulus that depends on the source address only, plus the offset."""

    source: "Selector"
    modulus: int
    offset: int = 0


class NetworkOrder(msgspec.Struct, frozen=True):
    """A value that the kernel has in its own byte order, for a set of ranges."""

    of: "Selector"


Load = Payload | Meta | Ct | Fib | Numgen | SourceHash | NetworkOrder


class Selector(msgspec.Struct, frozen=True):
    """Something that can be read of a packet: how nft writes it, its type, how it is read."""

    text: str
    type: Datatype
    load: Load


class Headers(msgspec.Struct, frozen=True):
    """The selectors that differ between the families."""

    family: Family
    keyword: str
    saddr: Selector
    daddr: Selector
    original_daddr: Selector


def _headers(family: Family, keyword: str, original: int, saddr: Load, daddr: Load) -> Headers:
    type_ = IPV4_ADDR if family is Family.IPV4 else IPV6_ADDR
    return Headers(
        family,
        keyword,
        Selector(f"{keyword} saddr", type_, saddr),
        Selector(f"{keyword} daddr", type_, daddr),
        Selector(f"ct original {keyword} daddr", type_, Ct(original, original=True)),
    )


HEADERS = {
    Family.IPV4: _headers(
        Family.IPV4, "ip", 20, Payload(_NETWORK, 12, 12, 11), Payload(_NETWORK, 16, 12, 12)
    ),
    Family.IPV6: _headers(
        Family.IPV6, "ip6", 22, Payload(_NETWORK, 8, 13, 8), Payload(_NETWORK, 24, 13, 9)
    ),
}

L4PROTO = Selector("meta l4proto", INET_PROTO, Meta(nft.NFT_META_L4PROTO))
IIFNAME = Selector("iifname", IFNAME, Meta(nft.NFT_META_IIFNAME))
CT_STATE = Selector("ct state", INTEGER, Ct(nft.NFT_CT_STATE))
CT_STATUS = Selector("ct status", INTEGER, Ct(nft.NFT_CT_STATUS))
SOURCE_TYPE = Selector("fib saddr type", INTEGER, Fib())
MARK = Selector("meta mark", INTEGER, Meta(nft.NFT_META_MARK))
DPORT = Selector("th dport", INET_SERVICE, Payload(_TRANSPORT, 2, 11, 2))
ORIGINAL_DPORT = Selector("ct original proto-dst", INET_SERVICE, Ct(12, original=True))
PRIORITY = Selector("meta priority", CLASSID, Meta(nft.NFT_META_PRIORITY))
RANGED_PRIORITY = Selector("meta priority", RANGED_CLASSID, NetworkOrder(PRIORITY))


def numgen(modulus: int, *, random: bool = True, offset: int = 0) -> Selector:
    """`numgen random mod N` or `numgen inc mod N`."""
    text = f"numgen {'random' if random else 'inc'} mod {modulus}{_plus(offset)}"
    return Selector(text, INTEGER, Numgen(modulus, random, offset))


def source_hash(headers: Headers, modulus: int, *, offset: int = 0) -> Selector:
    """`jhash ip saddr mod N`."""
    text = f"jhash {headers.saddr.text} mod {modulus} seed 0x1{_plus(offset)}"
    return Selector(text, INTEGER, SourceHash(headers.saddr, modulus, offset))


def _plus(offset: int) -> str:
    return f" offset {offset}" if offset else ""


Key = tuple[Selector, ...]


class Match(msgspec.Struct, frozen=True):
    """A value is the expected one, or with `negate` is not; of a masked one, only some bits count.

    `text` is how nft writes it.
    """

    text: str
    selector: Selector
    value: bytes
    mask: bytes = b""
    negate: bool = False


def in_prefix(selector: Selector, prefix: Prefix, *, negate: bool = False) -> Match:
    """The address is in a prefix: leading bytes are compared, further bits masked."""
    # nft writes a prefix of full length as an address.
    text = str(prefix).removesuffix(f"/{8 * selector.type.size}")
    text = f"{selector.text} {'!= ' if negate else ''}{text}"
    packed, length = pack(prefix.address), prefix.length
    if length % 8 == 0 and length:
        packed = packed[: length // 8]
        leading = msgspec.structs.replace(selector.type, size=len(packed))
        selector = msgspec.structs.replace(selector, type=leading)
        return Match(text, selector, packed, negate=negate)
    ones = (1 << length) - 1 << (8 * len(packed) - length)
    return Match(text, selector, packed, ones.to_bytes(len(packed), "big"), negate)


def is_protocol(protocol: Protocol) -> Match:
    """The transport protocol is this one."""
    return Match(f"{L4PROTO.text} {protocol.name.lower()}", L4PROTO, bytes([protocol]))


PROTOCOLS = tuple(map(is_protocol, Protocol))
"""A match for each, where a rule has to name its protocol."""


def from_interface(name: str, *, prefix: bool = False, negate: bool = False) -> Match:
    """The packet came in by an interface; `prefix` matches the beginning of its name."""
    text = f'iifname {"!= " if negate else ""}"{name}{"*" if prefix else ""}"'
    packed = name.encode() if prefix else name.encode().ljust(IIFNAME.type.size, b"\0")
    return Match(text, IIFNAME, packed, negate=negate)


def _has_bit(text: str, selector: Selector, bit: int) -> Match:
    return Match(text, selector, bytes(4), bit.to_bytes(4, "little"), negate=True)


def is_marked(bit: int) -> Match:
    """The packet's mark has this bit."""
    return _has_bit(f"meta mark & 0x{bit:08x} != 0x00000000", MARK, bit)


NEW = _has_bit("ct state new", CT_STATE, _STATE_NEW)
"""The packet is the first of its connection."""
TRANSLATED = _has_bit("ct status dnat", CT_STATUS, _STATUS_DNAT)
"""The destination of the connection was translated."""
OWN_SOURCE = Match("fib saddr type local", SOURCE_TYPE, _LOCAL.to_bytes(4, "little"))
"""The source address is one of this node's."""


class InSet(msgspec.Struct, frozen=True):
    """The key is in a set."""

    key: Key
    set: str


class Mark(msgspec.Struct, frozen=True):
    """Set a bit of the packet's mark, or clear it knowing that it is set."""

    bit: int
    clear: bool = False


class SetPriority(msgspec.Struct, frozen=True):
    """Note a key in the packet's priority field, or a map's number for it; no key clears it."""

    key: Key = ()
    map: str = ""


class VerdictMap(msgspec.Struct, frozen=True):
    """Go where a map says for the key."""

    key: Key
    map: str


class Dnat(msgspec.Struct, frozen=True):
    """Send the connection to the address and port that a map has for the key."""

    family: Family
    key: Key
    map: str


class UpdateMap(msgspec.Struct, frozen=True):
    """Remember data under a key in a map, for so many seconds from now on."""

    map: str
    key: Key
    data: Key
    seconds: int


class Masquerade(msgspec.Struct, frozen=True):
    """Rewrite the source address to that of the outgoing interface, with a random port."""


class Reject(msgspec.Struct, frozen=True):
    """Refuse with ICMP port unreachable."""

    family: Family


class UseCounter(msgspec.Struct, frozen=True):
    """Count in a named counter."""

    counter: str


class Jump(Enum):
    """What to do with a packet, or where to go on; the values are the kernel's codes."""

    DROP = 0
    RETURN = -5
    JUMP = -3
    GOTO = -4


class RuleVerdict(msgspec.Struct, frozen=True):
    """The end of a rule."""

    jump: Jump
    chain: str = ""


DROP = RuleVerdict(Jump.DROP)
RETURN = RuleVerdict(Jump.RETURN)


def goto(chain: str) -> RuleVerdict:
    """Go on in a chain, and do not come back to this one."""
    return RuleVerdict(Jump.GOTO, chain)


def jump(chain: str) -> RuleVerdict:
    """Go through a chain, and come back."""
    return RuleVerdict(Jump.JUMP, chain)


Condition = Match | InSet
Action = Mark | SetPriority | VerdictMap | Dnat | UpdateMap | Masquerade | Reject | UseCounter
Statement = Condition | Action | RuleVerdict
Rule = tuple[Statement, ...]


class Hook(msgspec.Struct, frozen=True):
    """Where a chain is attached to the path of packets."""

    type: str
    hook: str
    number: int
    priority: int
    priority_text: str


class Chain(msgspec.Struct, frozen=True):
    """Rules under a name, attached to a hook or reached from other chains."""

    name: str
    rules: tuple[Rule, ...]
    hook: Hook | None = None


class Set(msgspec.Struct, frozen=True):
    """A set, or with `data` a map; `verdicts` makes it a verdict map.

    `typeof` declares it by selectors, for types that have no name. A `dynamic` one is filled by
    rules, its elements have a time-out; an `interval` one holds ranges in the last field.
    """

    name: str
    key: Key
    comment: str
    data: Key = ()
    verdicts: bool = False
    typeof: bool = False
    dynamic: bool = False
    interval: bool = False
    counter: bool = False
    size: int = 0

    @property
    def is_map(self) -> bool:
        """Whether elements have data."""
        return self.verdicts or bool(self.data)


class Program(msgspec.Struct, frozen=True):
    """All that is fixed: it depends on the operator's settings and not on the cluster."""

    family: Family
    table: str
    comment: str
    counters: tuple[str, ...]
    sets: tuple[Set, ...]
    chains: tuple[Chain, ...]
