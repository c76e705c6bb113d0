"""The ways of choosing an endpoint, and the chains that do it: one for each way in use.

A `Choice` has no service in it. All services with three endpoints and the same policy go through
the same chain; which three they are is looked up with the packet's own destination.
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


class External(msgspec.Struct, frozen=True):
    """Masquerade, then choose: external traffic policy Cluster."""

    pick: Pick

    @property
    def chain(self) -> str:
        """The name of its chain."""
        return f"masquerade-{self.pick.chain}"


class Split(msgspec.Struct, frozen=True):
    """External traffic policy Local: pods and the node choose of all, others of this node's."""

    all: Pick
    local: Pick | None

    @property
    def chain(self) -> str:
        """The name of its chain."""
        here = self.local.count if self.local else 0
        return f"local-{here}-of-{self.all.chain}"


class Remember(msgspec.Struct, frozen=True):
    """Remember which endpoint a client got, for so many seconds.

    `local` says that the choice was among endpoints of this node; None, that it depends on the
    client, as in a Split.
    """

    node_port: bool
    local: bool | None
    seconds: int

    @property
    def chain(self) -> str:
        """The name of its chain."""
        words = {True: "-local", False: "", None: "-split"}
        prefix = "nodeport-" if self.node_port else ""
        return f"{prefix}remember{words[self.local]}-{self.seconds}"


Choice = Pick | External | Split | Remember


_COUNTS = re.compile(r"(?:local-(\d+)-of-)?(?:masquerade-)?(?:nodeport-)?pick-(local-)?(\d+)")


def counts_in(chain: str) -> tuple[int, int]:
    """How long the lists are that the chain of a choice draws from: of all, and of this node."""
    found = _COUNTS.match(chain)
    if found is None:
        return 0, 0
    beside, local, count = found.groups()
    return (0, int(count)) if local else (int(count), int(beside or 0))


def with_parts(choices: Iterable[Choice]) -> set[Choice]:
    """The choices, and those that their chains lead to."""
    found: set[Choice] = set()
    waiting = list(choices)
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
        case External():
            return [choice.pick]
        case Split():
            local: list[Choice] = [choice.local] if choice.local else []
            return [choice.all, External(choice.all), *local]
        case Remember():
            if choice.local is not None:
                return []
            return [msgspec.structs.replace(choice, local=here) for here in (True, False)]
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
        case External():
            rules = ((jump(MARK_TO_MASQUERADE),), (goto(choice.pick.chain),))
        case Split():
            rules = _split(choice, node, headers)
        case Remember():
            rules = _remember(choice, node, headers)
        case _:
            assert_never(choice)
    return Chain(choice.chain, rules)


def _frontend(choice: Pick, headers: Headers) -> Key:
    """The part of a key that names the frontend, as the packet does."""
    return (L4PROTO, DPORT) if choice.node_port else (headers.daddr, L4PROTO, DPORT)


def _plain(choice: Pick, headers: Headers) -> tuple[Rule, ...]:
    endpoints = {
        (False, False): SERVICE_ENDPOINTS,
        (False, True): SERVICE_LOCAL_ENDPOINTS,
        (True, False): NODEPORT_ENDPOINTS,
        (True, True): NODEPORT_LOCAL_ENDPOINTS,
    }[choice.node_port, choice.local]
    key = (*_frontend(choice, headers), _index(choice, headers))
    return ((Dnat(headers.family, key, endpoints),),)


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
    """Look for what the client had before; the service's number stands in for its frontends."""
    numbers = NODEPORT_AFFINITY if choice.node_port else SERVICE_AFFINITY
    plain = msgspec.structs.replace(choice, sticky=False)
    remembered = (
        Dnat(headers.family, (headers.saddr, PRIORITY), PINS[choice.local]),
        Dnat(headers.family, _shared_place(headers), SHARED_PINS[choice.local]),
    )
    return (
        (SetPriority(_frontend(choice, headers), numbers),),
        *((_of(each), dnat) for dnat in remembered for each in Protocol),
        (goto(plain.chain),),
    )


def _shared_place(headers: Headers) -> Key:
    """One of the places of a service for clients that found no room of their own."""
    return (source_hash(headers, SHARED_PLACES), PRIORITY)


def _split(choice: Split, node: Node, headers: Headers) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    pod = is_pod(node, headers)
    if pod is not None:
        rules.append((pod, goto(choice.all.chain)))
    rules.append((IsOwnSource(), goto(External(choice.all).chain)))
    if choice.local is not None:
        rules.append((goto(choice.local.chain),))
    return tuple(rules)


def _remember(choice: Remember, node: Node, headers: Headers) -> tuple[Rule, ...]:
    if choice.local is None:
        return _remember_split(choice, node, headers)
    numbers = NODEPORT_AFFINITY if choice.node_port else SERVICE_AFFINITY
    frontend: Key = (headers.original_daddr, L4PROTO, ORIGINAL_DPORT)
    original = frontend[1:] if choice.node_port else frontend
    note = tuple((_of(each), SetPriority(original, numbers)) for each in Protocol)
    data = (headers.daddr, DPORT)
    own = Update(PINS[choice.local], (headers.saddr, PRIORITY), data, choice.seconds)
    shared = Update(SHARED_PINS[choice.local], _shared_place(headers), data, choice.seconds)
    return (
        *note,
        # A rule ends where an element finds no room.
        *((_of(each), own, SetPriority(), RETURN) for each in Protocol),
        *((_of(each), shared, Count(AFFINITY_FULL)) for each in Protocol),
        (SetPriority(),),
    )


def _remember_split(choice: Remember, node: Node, headers: Headers) -> tuple[Rule, ...]:
    of_all = msgspec.structs.replace(choice, local=False).chain
    of_local = msgspec.structs.replace(choice, local=True).chain
    rules: list[Rule] = []
    pod = is_pod(node, headers)
    if pod is not None:
        rules.append((pod, goto(of_all)))
    rules += [(IsOwnSource(), goto(of_all)), (goto(of_local),)]
    return tuple(rules)


def _of(protocol: Protocol) -> IsProtocol:
    return IsProtocol(protocol.name.lower(), protocol)
