"""The part of nft's language that the program needs, as typed values.

A `Selector` reads something of a packet, a `Statement` does something with it, and rules, chains
and sets are made of these. How they look as text is in `render`, and as bytes in `encode`.
"""

from enum import Enum
from typing import Literal

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
ICMP_TYPE = Datatype("icmp_type", 14, 1)
TCP_FLAG = Datatype("tcp_flag", 15, 1)
DIRECTION = Datatype("ct_dir", 27, 1, host_order=True)
RANGED_CLASSID = Datatype("classid", 23, 4)
"""As it stands in sets of ranges, which the kernel compares byte by byte."""

_NETWORK, _TRANSPORT = 1, 2  # the headers that an offset into a packet is counted from
# Bits of a connection's state and status.
_STATE_RELATED, _STATE_NEW = 4, 8
_STATUS_SEEN_REPLY, _STATUS_DNAT, _STATUS_DYING = 0x2, 0x20, 0x200
_LOCAL = 2  # a type of address
HASH_SEED = 1
_SYN, _RST = 0x02, 0x04  # bits of the flags of TCP


class Payload(msgspec.Struct, frozen=True):
    """Bytes of a header. `header` and `field` are nft's numbers for what they are."""

    base: int
    offset: int
    header: int
    field: int


class Meta(msgspec.Struct, frozen=True):
    """A property of the packet that is in no header."""

    key: int


class Direction(Enum):
    """A direction of a connection, from the client or to it; the values are the kernel's."""

    ORIGINAL = 0
    REPLY = 1


class Ct(msgspec.Struct, frozen=True):
    """A property of the connection, or with `direction` of its packets in that direction."""

    key: int
    direction: Direction | None = None


class Fib(msgspec.Struct, frozen=True):
    """What kind of address the source is, by the routing table."""


class Numgen(msgspec.Struct, frozen=True):
    """A number below the modulus, random or the next one, plus the offset."""

    modulus: int
    random: bool = True
    offset: int = 0


class Hash(msgspec.Struct, frozen=True):
    """A number below the modulus that depends on some fields of a packet, plus the offset."""

    key: "Key"
    modulus: int
    offset: int = 0


class NetworkOrder(msgspec.Struct, frozen=True):
    """A value that the kernel has in its own byte order, for a set of ranges."""

    of: "Selector"


Load = Payload | Meta | Ct | Fib | Numgen | Hash | NetworkOrder


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
    original_saddr: Selector
    original_daddr: Selector
    reply_saddr: Selector


def _headers(family: Family, keyword: str, source: int, saddr: Load, daddr: Load) -> Headers:
    """`source` is the key of a connection's source address; that of its destination is next."""
    type_ = IPV4_ADDR if family is Family.IPV4 else IPV6_ADDR
    original, reply = Direction.ORIGINAL, Direction.REPLY
    return Headers(
        family,
        keyword,
        Selector(f"{keyword} saddr", type_, saddr),
        Selector(f"{keyword} daddr", type_, daddr),
        Selector(f"ct original {keyword} saddr", type_, Ct(source, original)),
        Selector(f"ct original {keyword} daddr", type_, Ct(source + 1, original)),
        Selector(f"ct reply {keyword} saddr", type_, Ct(source, reply)),
    )


HEADERS = {
    Family.IPV4: _headers(
        Family.IPV4, "ip", 19, Payload(_NETWORK, 12, 12, 11), Payload(_NETWORK, 16, 12, 12)
    ),
    Family.IPV6: _headers(
        Family.IPV6, "ip6", 21, Payload(_NETWORK, 8, 13, 8), Payload(_NETWORK, 24, 13, 9)
    ),
}

L4PROTO = Selector("meta l4proto", INET_PROTO, Meta(nft.NFT_META_L4PROTO))
IIFNAME = Selector("iifname", IFNAME, Meta(nft.NFT_META_IIFNAME))
CT_STATE = Selector("ct state", INTEGER, Ct(nft.NFT_CT_STATE))
CT_STATUS = Selector("ct status", INTEGER, Ct(nft.NFT_CT_STATUS))
SOURCE_TYPE = Selector("fib saddr type", INTEGER, Fib())
MARK = Selector("meta mark", INTEGER, Meta(nft.NFT_META_MARK))
CT_DIRECTION = Selector("ct direction", DIRECTION, Ct(nft.NFT_CT_DIRECTION))
SPORT = Selector("th sport", INET_SERVICE, Payload(_TRANSPORT, 0, 11, 1))
DPORT = Selector("th dport", INET_SERVICE, Payload(_TRANSPORT, 2, 11, 2))
TCP_FLAGS = Selector("tcp flags", TCP_FLAG, Payload(_TRANSPORT, 13, 4, 9))
CT_PROTOCOL = Selector("ct protocol", INET_PROTO, Ct(nft.NFT_CT_PROTOCOL))
ORIGINAL_SPORT = Selector("ct original proto-src", INET_SERVICE, Ct(11, Direction.ORIGINAL))
ORIGINAL_DPORT = Selector("ct original proto-dst", INET_SERVICE, Ct(12, Direction.ORIGINAL))
REPLY_SPORT = Selector("ct reply proto-src", INET_SERVICE, Ct(11, Direction.REPLY))
PRIORITY = Selector("meta priority", CLASSID, Meta(nft.NFT_META_PRIORITY))
RANGED_PRIORITY = Selector("meta priority", RANGED_CLASSID, NetworkOrder(PRIORITY))


def numgen(modulus: int, *, random: bool = True, offset: int = 0) -> Selector:
    """`numgen random mod N` or `numgen inc mod N`."""
    text = f"numgen {'random' if random else 'inc'} mod {modulus}{_plus(offset)}"
    return Selector(text, INTEGER, Numgen(modulus, random, offset))


def source_hash(source: Selector, modulus: int, *, offset: int = 0) -> Selector:
    """`jhash ip saddr mod N`."""
    return key_hash((source,), modulus, offset=offset)


def key_hash(key: "Key", modulus: int, *, offset: int = 0) -> Selector:
    """`jhash ip daddr . th dport mod N`."""
    fields = " . ".join(selector.text for selector in key)
    text = f"jhash {fields} mod {modulus} seed 0x{HASH_SEED:x}{_plus(offset)}"
    return Selector(text, INTEGER, Hash(key, modulus, offset))


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


def _has_bit(text: str, selector: Selector, bit: int, *, negate: bool = False) -> Match:
    """One of the bits is set, or with `negate` none is."""
    size = selector.type.size
    return Match(text, selector, bytes(size), bit.to_bytes(size, "little"), negate=not negate)


def is_marked(bit: int) -> Match:
    """The packet's mark has this bit."""
    return _has_bit(f"meta mark & 0x{bit:08x} != 0x00000000", MARK, bit)


NEW = _has_bit("ct state new", CT_STATE, _STATE_NEW)
"""The packet is the first of its connection."""
RELATED = _has_bit("ct state related", CT_STATE, _STATE_RELATED)
"""The packet is about a connection: an ICMP error."""
TRANSLATED = _has_bit("ct status dnat", CT_STATUS, _STATUS_DNAT)
"""The destination of the connection was translated."""
NOT_TRANSLATED = _has_bit("ct status ! dnat", CT_STATUS, _STATUS_DNAT, negate=True)
FORGOTTEN = _has_bit("ct status dying", CT_STATUS, _STATUS_DYING)
"""The kernel has deleted the entry of the connection, as it does for a SYN that is reset."""
UNANSWERED = _has_bit("ct status ! seen-reply", CT_STATUS, _STATUS_SEEN_REPLY, negate=True)
"""No packet of the endpoint has been seen."""
FROM_CLIENT = Match("ct direction original", CT_DIRECTION, bytes([Direction.ORIGINAL.value]))
TO_CLIENT = Match("ct direction reply", CT_DIRECTION, bytes([Direction.REPLY.value]))
SYN_OR_RST = _has_bit("tcp flags syn,rst", TCP_FLAGS, _SYN | _RST)
RST = _has_bit("tcp flags rst", TCP_FLAGS, _RST)

_ICMP = {Family.IPV4: ("icmp", 1, 3), Family.IPV6: ("icmpv6", 58, 1)}
"""The protocol of errors: its name and number, and its type for an unreachable destination."""
_FRAGMENTATION_NEEDED = 4


def unreachable(family: Family) -> tuple["Match", ...]:
    """The packet says that a destination cannot be reached, whatever its size."""
    name, protocol, type_ = _ICMP[family]
    # nft leaves the protocol out: the type implies it.
    is_icmp = Match("", L4PROTO, bytes([protocol]))
    field = Selector(f"{name} type", ICMP_TYPE, Payload(_TRANSPORT, 0, 0, 0))
    is_unreachable = Match(f"{field.text} destination-unreachable", field, bytes([type_]))
    if family is Family.IPV6:
        return is_icmp, is_unreachable
    code = Selector(f"{name} code", ICMP_TYPE, Payload(_TRANSPORT, 1, 0, 0))
    is_other = Match(
        f"{code.text} != frag-needed", code, bytes([_FRAGMENTATION_NEEDED]), negate=True
    )
    return is_icmp, is_unreachable, is_other


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


class Limit(msgspec.Struct, frozen=True):
    """So many packets in a row, and then so many in each unit of time; or `over`, all others."""

    rate: int
    unit: Literal["second", "minute"]
    burst: int
    over: bool = False


class Change(Enum):
    """What to do with an element; the values are the kernel's codes."""

    ADD = 0
    UPDATE = 1
    DELETE = 2


class ChangeElement(msgspec.Struct, frozen=True):
    """Add an element to a set or map, unless it is there; update it, too; or delete it.

    It stays for so many milliseconds since it was added or updated. An element with a limit lets
    the rule go on only as often as that.
    """

    change: Change
    set: str
    key: Key
    data: Key = ()
    milliseconds: int = 0
    limit: Limit | None = None


def remember(map_: str, key: Key, data: Key, seconds: int) -> ChangeElement:
    """Remember data under a key in a map, for so many seconds from now on."""
    return ChangeElement(Change.UPDATE, map_, key, data, 1000 * seconds)


class Log(msgspec.Struct, frozen=True):
    """Notify the process that has joined the group."""

    group: int


class UseTimeout(msgspec.Struct, frozen=True):
    """Have the connection forgotten by the time-outs of this name."""

    timeout: str


class Masquerade(msgspec.Struct, frozen=True):
    """Rewrite the source address to that of the outgoing interface, with a random port."""


class Reject(msgspec.Struct, frozen=True):
    """Refuse with ICMP port unreachable."""

    family: Family


class Reset(msgspec.Struct, frozen=True):
    """Refuse with a reset of TCP."""


class UseCounter(msgspec.Struct, frozen=True):
    """Count in a named counter."""

    counter: str


class Jump(Enum):
    """What to do with a packet, or where to go on; the values are the kernel's codes."""

    DROP = 0
    ACCEPT = 1
    RETURN = -5
    JUMP = -3
    GOTO = -4


class RuleVerdict(msgspec.Struct, frozen=True):
    """The end of a rule."""

    jump: Jump
    chain: str = ""


DROP = RuleVerdict(Jump.DROP)
ACCEPT = RuleVerdict(Jump.ACCEPT)
RETURN = RuleVerdict(Jump.RETURN)


def goto(chain: str) -> RuleVerdict:
    """Go on in a chain, and do not come back to this one."""
    return RuleVerdict(Jump.GOTO, chain)


def jump(chain: str) -> RuleVerdict:
    """Go through a chain, and come back."""
    return RuleVerdict(Jump.JUMP, chain)


Condition = Match | InSet | Limit
Action = (
    Mark
    | SetPriority
    | VerdictMap
    | Dnat
    | ChangeElement
    | Masquerade
    | Reject
    | Reset
    | UseCounter
    | UseTimeout
    | Log
)
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
    rules, its elements have a time-out, `seconds` if they do not say; an `interval` one holds
    ranges in the last field.
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
    seconds: int = 0

    @property
    def is_map(self) -> bool:
        """Whether elements have data."""
        return self.verdicts or bool(self.data)


class SynTimeout(msgspec.Struct, frozen=True):
    """Time-outs of connections that are the kernel's own, but for how long a SYN may wait."""

    name: str
    seconds: int


class Program(msgspec.Struct, frozen=True):
    """All that is fixed: it depends on the operator's settings and not on the cluster."""

    family: Family
    table: str
    comment: str
    counters: tuple[str, ...]
    sets: tuple[Set, ...]
    chains: tuple[Chain, ...]
    timeouts: tuple[SynTimeout, ...] = ()
