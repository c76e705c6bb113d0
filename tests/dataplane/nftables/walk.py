"""A packet's walk through the program: what the rules do to it, in Python.

The typed rules are interpreted, one function a kind of statement, on the elements that a kernel
holds. Where a rule draws a number the walk is done once for every number, so that the result is
all that can happen and how often. Packets are the first of their connection.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from fractions import Fraction
from functools import singledispatch
from operator import and_

import msgspec

from fakes.ruleset import VERDICT, bound, span, text_of
from kubeproxy.base.inet import Family, join, pack, unpack
from kubeproxy.dataplane.nftables import language as nft
from kubeproxy.dataplane.nftables.jhash import jhash
from kubeproxy.dataplane.nftables.names import PINS, PINS_FROM, SHARED_PINS, SHARED_PLACES
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.table.decide import Packet
from kubeproxy.table.node import NodeView

ICMP = 1
CLIENT_PORT = (40000).to_bytes(2, "big")
SYN, ECHO_REQUEST = b"\x02", b"\x08"

PINNED = {*PINS.values(), *SHARED_PINS.values()}

Elements = Mapping[str, Mapping[bytes, bytes]]
Pin = tuple[str, bytes, bytes, int]
"""What a rule remembers: in which map, under which key, what, and for how many seconds."""


class End(Enum):
    """How the walk through one hook ends, other than by going on."""

    ACCEPT = "accept"
    DROP = "drop"
    REJECT = "reject"


class Fate(msgspec.Struct, frozen=True):
    """What became of a packet: `target` is where it was sent to, "" when it was not translated.

    `pin` is what rules remember, and `unpinned` are the pins that they delete.
    """

    end: End
    target: str = ""
    masquerade: bool = False
    pin: Pin | None = None
    unpinned: tuple[tuple[str, bytes], ...] = ()


class Machine(msgspec.Struct, frozen=True):
    """A kernel: the rules, the elements of its sets, and the node that it runs on."""

    sets: Mapping[str, nft.Set]
    counters: tuple[str, ...]
    chains: Mapping[str, nft.Chain]
    elements: Elements
    node: NodeView


def machine(
    program: nft.Program, choices: Iterable[nft.Chain], elements: Elements, node: NodeView
) -> Machine:
    """The kernel of a node with the program, the chains of choices, and the elements."""
    chains = {chain.name: chain for chain in (*program.chains, *choices)}
    sets = {set_.name: set_ for set_ in program.sets}
    return Machine(sets, program.counters, chains, elements, node)


class Undecided(Exception):
    """A number below `modulus` has to be drawn before the walk can go on."""

    def __init__(self, modulus: int) -> None:
        super().__init__(modulus)
        self.modulus = modulus


class Walk(msgspec.Struct):
    """A packet on its way. `numbers` are those that rules will draw, in their order."""

    machine: Machine
    saddr: str
    daddr: str
    protocol: int
    dport: int
    interface: str
    original: tuple[str, int]
    numbers: list[int]
    mark: int = 0
    priority: int = 0
    translated: bool = False
    masqueraded: bool = False
    pin: Pin | None = None
    unpinned: list[tuple[str, bytes]] = []


def outcomes(at: Machine, packet: Packet) -> dict[Fate, Fraction]:
    """All that can become of the packet, and how often."""
    found: Counter[Fate] = Counter()
    waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
    while waiting:
        numbers, share = waiting.pop()
        walk = _start(at, packet, numbers)
        try:
            end = _path(walk, sent_here=at.node.is_own(packet.source))
        except Undecided as draw:
            each = share / draw.modulus
            waiting += [((*numbers, number), each) for number in range(draw.modulus)]
        else:
            found[_fate(walk, end)] += share  # type: ignore[assignment]  # counts in fractions
    return dict(found)  # type: ignore[arg-type]  # the same


def _start(at: Machine, packet: Packet, numbers: Iterable[int]) -> Walk:
    return Walk(
        machine=at,
        saddr=packet.source,
        daddr=packet.destination,
        protocol=ICMP if packet.protocol is None else packet.protocol,
        dport=packet.port,
        interface=packet.interface,
        original=(packet.destination, packet.port),
        numbers=list(numbers),
    )


def _fate(walk: Walk, end: End) -> Fate:
    if end is not End.ACCEPT:
        return Fate(end)
    assert not walk.priority or not walk.translated  # it carried numbers on the way
    target = join(walk.daddr, walk.dport) if walk.translated else ""
    return Fate(end, target, walk.masqueraded, walk.pin, tuple(walk.unpinned))


# --- hooks ------------------------------------------------------------------------------------


def _path(walk: Walk, *, sent_here: bool) -> End:
    """Through the hooks. What the node sends to itself goes out and comes in again."""
    is_own = walk.machine.node.is_own
    if sent_here:
        if (end := _hook(walk, "output")) or (end := _hook(walk, "postrouting")):
            return end
        if not is_own(walk.daddr):
            return End.ACCEPT
        # The connection has been through the nat chains for destinations: not a second time.
        return _hook(walk, "prerouting", ("filter",)) or _hook(walk, "input") or End.ACCEPT
    if end := _hook(walk, "prerouting"):
        return end
    if is_own(walk.daddr):
        return _hook(walk, "input") or End.ACCEPT
    if walk.machine.node.family is Family.IPV4:
        walk.priority = 0  # the kernel sets it, by the packet's type of service
    return _hook(walk, "forward") or _hook(walk, "postrouting") or End.ACCEPT


def _hook(walk: Walk, name: str, types: tuple[str, ...] = ("filter", "nat")) -> End | None:
    """Through the chains of a hook by priority; None lets the packet go on."""
    placed = [
        (chain.hook.priority, chain.hook, chain)
        for chain in walk.machine.chains.values()
        if chain.hook is not None and chain.hook.hook == name and chain.hook.type in types
    ]
    for _, hook, chain in sorted(placed, key=lambda each: each[0]):
        if hook.type == "nat" and _is_done(walk, hook.hook):
            continue
        end = _chain(walk, chain.name)
        if end in {End.DROP, End.REJECT}:
            return end
    return None


def _is_done(walk: Walk, hook: str) -> bool:
    """Whether the address that the nat chains of a hook rewrite is rewritten: once is enough."""
    return walk.masqueraded if hook == "postrouting" else walk.translated


def _chain(walk: Walk, name: str) -> End | None:
    """Through a chain; None comes back to where it was called from."""
    for rule in walk.machine.chains[name].rules:
        result = _rule(walk, rule)
        match result:
            case End():
                return result
            case nft.RuleVerdict(nft.Jump.DROP | nft.Jump.ACCEPT as jump):
                return End.DROP if jump is nft.Jump.DROP else End.ACCEPT
            case nft.RuleVerdict(nft.Jump.RETURN):
                return None
            case nft.RuleVerdict(nft.Jump.GOTO, chain):
                return _chain(walk, chain)
            case nft.RuleVerdict(nft.Jump.JUMP, chain):
                end = _chain(walk, chain)
                if end is not None:
                    return end
    return None


Result = bool | End | nft.RuleVerdict
"""Of a statement: go on to the next (True) or to the next rule (False), stop, go elsewhere."""


def _rule(walk: Walk, rule: nft.Rule) -> Result:
    for statement in rule:
        result = do(statement, walk)
        if result is not True:
            return result
    return False


# --- what is read -----------------------------------------------------------------------------


def _value(walk: Walk, selector: nft.Selector) -> bytes:
    match selector.load:
        case nft.Hash(key, modulus, offset) if modulus in {SHARED_PLACES, PINS_FROM}:
            hashed = jhash(_key(walk, key), nft.HASH_SEED)
            return (offset + (hashed * modulus >> 32)).to_bytes(4, "little")
        case nft.Numgen(modulus, offset=offset) | nft.Hash(_, modulus, offset):
            if not walk.numbers:
                raise Undecided(modulus)
            return (walk.numbers.pop(0) + offset).to_bytes(4, "little")
    return _READ[walk.machine.node.family][selector.load](walk)


_READ: dict[Family, dict[nft.Load, Callable[[Walk], bytes]]] = {
    family: {
        headers.saddr.load: lambda walk: pack(walk.saddr),
        headers.daddr.load: lambda walk: pack(walk.daddr),
        headers.original_daddr.load: lambda walk: pack(walk.original[0]),
        nft.L4PROTO.load: lambda walk: bytes([walk.protocol]),
        nft.DPORT.load: lambda walk: walk.dport.to_bytes(2, "big"),
        nft.ORIGINAL_DPORT.load: lambda walk: walk.original[1].to_bytes(2, "big"),
        nft.PRIORITY.load: lambda walk: walk.priority.to_bytes(4, "little"),
        nft.RANGED_PRIORITY.load: lambda walk: walk.priority.to_bytes(4, "big"),
        nft.IIFNAME.load: lambda walk: walk.interface.encode().ljust(16, b"\0"),
        nft.MARK.load: lambda walk: walk.mark.to_bytes(4, "little"),
        # Every walk is that of a first packet.
        nft.CT_STATE.load: lambda _: (8).to_bytes(4, "little"),
        nft.CT_STATUS.load: lambda walk: (0x20 * walk.translated).to_bytes(4, "little"),
        nft.CT_DIRECTION.load: lambda _: bytes([nft.Direction.ORIGINAL.value]),
        nft.CT_PROTOCOL.load: lambda walk: bytes([walk.protocol]),
        headers.original_saddr.load: lambda walk: pack(walk.saddr),
        headers.reply_saddr.load: lambda walk: pack(walk.daddr),
        nft.SPORT.load: lambda _: CLIENT_PORT,
        nft.ORIGINAL_SPORT.load: lambda _: CLIENT_PORT,
        nft.REPLY_SPORT.load: lambda walk: walk.dport.to_bytes(2, "big"),
        nft.TCP_FLAGS.load: lambda _: SYN,
        nft.unreachable(family)[1].selector.load: lambda _: ECHO_REQUEST,
        nft.SOURCE_TYPE.load: lambda walk: (
            2 if walk.machine.node.is_own(walk.saddr) else 1
        ).to_bytes(4, "little"),
    }
    for family, headers in nft.HEADERS.items()
}


def _key(walk: Walk, key: nft.Key) -> bytes:
    """A key: the fields of a concatenation fill words of four bytes."""
    values = [_value(walk, selector) for selector in key]
    if len(values) == 1:
        return values[0]
    return b"".join(value + bytes(-len(value) % 4) for value in values)


def _find(walk: Walk, name: str, key: bytes) -> bytes | None:
    """The tail of the element that a key leads to; None when there is none."""
    set_ = walk.machine.sets[name]
    held = walk.machine.elements.get(name, {})
    if set_.interval:
        return b"" if _in_ranges(set_, held, key) else None
    return held.get(nested(1, attribute(1, key)))


def _in_ranges(set_: nft.Set, held: Iterable[bytes], key: bytes) -> bool:
    if len(set_.key) > 1:
        return any(first <= key <= last for first, last in map(span, held))
    below = [each for each in sorted(map(bound, held)) if each.key <= key]
    return bool(below) and below[-1].begins


def _data(tail: bytes) -> bytes:
    """The data of an element of a map."""
    return attributes(attributes(tail)[2])[1]


# --- statements -------------------------------------------------------------------------------


@singledispatch
def do(statement: nft.Statement, walk: Walk) -> Result:
    """What a statement does to the packet."""
    raise AssertionError(f"a packet cannot walk through {statement}, at {walk}")


@do.register
def _match(statement: nft.Match, walk: Walk) -> Result:
    expected, mask = statement.value, statement.mask or b"\xff" * len(statement.value)
    found = bytes(map(and_, _value(walk, statement.selector), mask))
    return (found == expected) is not statement.negate


@do.register
def _in_set(statement: nft.InSet, walk: Walk) -> Result:
    return _find(walk, statement.set, _key(walk, statement.key)) is not None


@do.register
def _mark(statement: nft.Mark, walk: Walk) -> Result:
    walk.mark = walk.mark ^ statement.bit if statement.clear else walk.mark | statement.bit
    return True


@do.register
def _set_priority(statement: nft.SetPriority, walk: Walk) -> Result:
    if not statement.map:
        walk.priority = int.from_bytes(_key(walk, statement.key), "little")
        return True
    tail = _find(walk, statement.map, _key(walk, statement.key))
    if tail is None:
        return False
    walk.priority = int.from_bytes(_data(tail), "little")
    return True


@do.register
def _verdict_map(statement: nft.VerdictMap, walk: Walk) -> Result:
    tail = _find(walk, statement.map, _key(walk, statement.key))
    if tail is None:
        return False
    verdict = attributes(attributes(tail[4:])[VERDICT])
    code = int.from_bytes(verdict[1], "big", signed=True)
    return nft.RuleVerdict(nft.Jump(code), text_of(verdict.get(2, b"")))


@do.register
def _dnat(statement: nft.Dnat, walk: Walk) -> Result:
    tail = _find(walk, statement.map, _key(walk, statement.key))
    if tail is None:
        return False
    data = _data(tail)
    walk.daddr, walk.dport = unpack(data[:-4]), int.from_bytes(data[-4:-2], "big")
    walk.translated = True
    return End.ACCEPT


@do.register
def _update(statement: nft.ChangeElement, walk: Walk) -> Result:
    if statement.set not in PINNED:  # what healing notes is of no concern to a first packet
        return statement.limit is None or not statement.limit.over
    if statement.change is nft.Change.DELETE:
        walk.unpinned.append((statement.set, _key(walk, statement.key)))
        return True
    data, seconds = _key(walk, statement.data), statement.milliseconds // 1000
    walk.pin = (statement.set, _key(walk, statement.key), data, seconds)
    return True


@do.register(nft.UseTimeout | nft.Limit | nft.Log)
def _goes_on(_: nft.Statement, __: Walk) -> Result:
    return True


@do.register
def _masquerade(_: nft.Masquerade, walk: Walk) -> Result:
    walk.masqueraded = True
    return End.ACCEPT


@do.register
def _reject(_: nft.Reject, walk: Walk) -> Result:
    assert not walk.translated  # nothing that was sent on is refused afterwards
    return End.REJECT


@do.register
def _count(statement: nft.UseCounter, walk: Walk) -> Result:
    return statement.counter in walk.machine.counters


@do.register
def _verdict(statement: nft.RuleVerdict, walk: Walk) -> Result:
    assert not statement.chain or statement.chain in walk.machine.chains
    return statement
