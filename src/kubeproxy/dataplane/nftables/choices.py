"""The ways of choosing an endpoint, and their chains: one for each way in use.

A `Choice` names no service. All services with three endpoints and the same policy go through the
same chain; which three they are is looked up with the packet's own destination.
"""

import re
from collections.abc import Iterable
from typing import assert_never

import msgspec

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables.language import (
    DPORT,
    HEADERS,
    L4PROTO,
    ORIGINAL_DPORT,
    PRIORITY,
    RETURN,
    Chain,
    Count,
    Dnat,
    Headers,
    IsOwnSource,
    IsProtocol,
    Key,
    Rule,
    Selector,
    SetPriority,
    Update,
    goto,
    jump,
    numgen,
    source_hash,
)
from kubeproxy.dataplane.nftables.program import (
    AFFINITY_FULL,
    MARK_TO_MASQUERADE,
    NODEPORT_AFFINITY,
    NODEPORT_ENDPOINTS,
    NODEPORT_LOCAL_ENDPOINTS,
    PINS,
    SERVICE_AFFINITY,
    SERVICE_ENDPOINTS,
    SERVICE_LOCAL_ENDPOINTS,
    SHARED_PINS,
    SHARED_PLACES,
    is_pod,
)
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import Node

LISTS = {
    (False, False): SERVICE_ENDPOINTS,
    (False, True): SERVICE_LOCAL_ENDPOINTS,
    (True, False): NODEPORT_ENDPOINTS,
    (True, True): NODEPORT_LOCAL_ENDPOINTS,
}
"""The maps with the lists of endpoints: of node ports or not, of this node or all."""

NUMBERS = {False: SERVICE_AFFINITY, True: NODEPORT_AFFINITY}
"""The maps with the numbers of services that have session affinity: of node ports or not."""


class Pick(msgspec.Struct, frozen=True):
    """Choose one of `count` endpoints of a frontend: of all, or of those of this node."""

    node_port: bool
    local: bool
    count: int
    sticky: bool = False
    balance: Balance = Balance.RANDOM

    @property
    def chain(self) -> str:
        """The name of its chain."""
        words = [
            "nodeport" if self.node_port else "",
            "pick",
            "local" if self.local else "",
            str(self.count),
            "" if self.balance is Balance.RANDOM else self.balance.value,
            "sticky" if self.sticky else "",
        ]
        return "-".join(word for word in words if word)


class Masqueraded(msgspec.Struct, frozen=True):
    """Masquerade, then choose."""

    pick: Pick

    @property
    def chain(self) -> str:
        """The name of its chain."""
        return f"masquerade-{self.pick.chain}"


class Remember(msgspec.Struct, frozen=True):
    """Remember which endpoint a client got, for so many seconds.

    `local` says that the choice was among the endpoints of this node.
    """

    node_port: bool
    local: bool
    seconds: int

    @property
    def chain(self) -> str:
        """The name of its chain."""
        prefix = "nodeport-" if self.node_port else ""
        return f"{prefix}remember{'-local' if self.local else ''}-{self.seconds}"


class Split(msgspec.Struct, frozen=True):
    """Choose, or remember, by the class of the source.

    `outside` is None when clients outside get no endpoint. The name of the chain is that of the
    one policy by which sources differ, external traffic policy Local.
    """

    pod: Pick | Masqueraded | Remember
    host: Pick | Masqueraded | Remember
    outside: Pick | Masqueraded | Remember | None

    @property
    def chain(self) -> str:
        """The name of its chain."""
        if isinstance(self.pod, Remember):
            prefix = "nodeport-" if self.pod.node_port else ""
            return f"{prefix}remember-split-{self.pod.seconds}"
        here = self.outside.count if isinstance(self.outside, Pick) else 0
        return f"local-{here}-of-{self.pod.chain}"


Choice = Pick | Masqueraded | Remember | Split


_COUNTS = re.compile(r"(?:local-(\d+)-of-)?(?:masquerade-)?(?:nodeport-)?pick-(local-)?(\d+)")


def counts_in(chain: str) -> tuple[int, int]:
    """The lengths of the lists that the chain of a choice draws from: all, and this node's."""
    found = _COUNTS.match(chain)
    if found is None:
        return 0, 0
    beside, local, count = found.groups()
    return (0, int(count)) if local else (int(count), int(beside or 0))


def with_parts(choices: Iterable[Choice]) -> set[Choice]:
    """The choices, and those that their chains lead to."""
    found: set[Choice] = set()
    waiting: list[Choice] = list(choices)
    while waiting:
        choice = waiting.pop()
        if choice not in found:
            found.add(choice)
            waiting += _parts(choice)
    return found


def _parts(choice: Choice) -> list[Choice]:
    match choice:
        case Pick():
            return [msgspec.structs.replace(choice, sticky=False)] if choice.sticky else []
        case Masqueraded():
            return [choice.pick]
        case Remember():
            return []
        case Split():
            parts = (choice.pod, choice.host, choice.outside)
            return [part for part in parts if part is not None]
        case _:
            assert_never(choice)


def in_order(choices: Iterable[Choice]) -> list[Choice]:
    """Choices after those that their chains lead to, and otherwise by name."""
    return sorted(choices, key=lambda choice: (_depth(choice), choice.chain))


def _depth(choice: Choice) -> int:
    return 1 + max((_depth(part) for part in _parts(choice)), default=0)


def chain_of(choice: Choice, node: Node) -> Chain:
    """The chain of a choice."""
    headers = HEADERS[node.family]
    match choice:
        case Pick():
            rules = _sticky(choice, headers) if choice.sticky else _plain(choice, headers)
        case Masqueraded():
            rules = ((jump(MARK_TO_MASQUERADE),), (goto(choice.pick.chain),))
        case Remember():
            rules = _remember(choice, headers)
        case Split():
            rules = _split(choice, node, headers)
        case _:
            assert_never(choice)
    return Chain(choice.chain, rules)


def _frontend(choice: Pick, headers: Headers) -> Key:
    """The part of a key that names the frontend, as the packet does."""
    return (L4PROTO, DPORT) if choice.node_port else (headers.daddr, L4PROTO, DPORT)


def _plain(choice: Pick, headers: Headers) -> tuple[Rule, ...]:
    key = (*_frontend(choice, headers), _index(choice, headers))
    return ((Dnat(headers.family, key, LISTS[choice.node_port, choice.local]),),)


def _index(choice: Pick, headers: Headers) -> Selector:
    match choice.balance:
        case Balance.RANDOM:
            return numgen(choice.count)
        case Balance.ROUND_ROBIN:
            return numgen(choice.count, random=False)
        case Balance.SOURCE_HASH:
            return source_hash(headers, choice.count)
        case _:
            assert_never(choice.balance)


def _sticky(choice: Pick, headers: Headers) -> tuple[Rule, ...]:
    """Look for the endpoint that the client had before, by the number of the service."""
    plain = msgspec.structs.replace(choice, sticky=False)
    remembered = (
        Dnat(headers.family, (headers.saddr, PRIORITY), PINS[choice.local]),
        Dnat(headers.family, _shared_place(headers), SHARED_PINS[choice.local]),
    )
    return (
        (SetPriority(_frontend(choice, headers), NUMBERS[choice.node_port]),),
        *((_of(each), dnat) for dnat in remembered for each in Protocol),
        (goto(plain.chain),),
    )


def _shared_place(headers: Headers) -> Key:
    """One of the places that clients of a service share when the map of pins is full."""
    return (source_hash(headers, SHARED_PLACES), PRIORITY)


def _split(choice: Split, node: Node, headers: Headers) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    pod = is_pod(node, headers)
    if pod is not None:
        rules.append((pod, goto(choice.pod.chain)))
    rules.append((IsOwnSource(), goto(choice.host.chain)))
    if choice.outside is not None:
        rules.append((goto(choice.outside.chain),))
    return tuple(rules)


def _remember(choice: Remember, headers: Headers) -> tuple[Rule, ...]:
    numbers = NUMBERS[choice.node_port]
    frontend: Key = (headers.original_daddr, L4PROTO, ORIGINAL_DPORT)
    original = frontend[1:] if choice.node_port else frontend
    number = tuple((_of(each), SetPriority(original, numbers)) for each in Protocol)
    data = (headers.daddr, DPORT)
    own = Update(PINS[choice.local], (headers.saddr, PRIORITY), data, choice.seconds)
    shared = Update(SHARED_PINS[choice.local], _shared_place(headers), data, choice.seconds)
    return (
        *number,
        # A rule ends where the map has no room for its element.
        *((_of(each), own, SetPriority(), RETURN) for each in Protocol),
        *((_of(each), shared, Count(AFFINITY_FULL)) for each in Protocol),
        (SetPriority(),),
    )


def _of(protocol: Protocol) -> IsProtocol:
    return IsProtocol(protocol.name.lower(), protocol)
