"""The ways of choosing an endpoint, and their chains: one for each way in use.

A `Choice` names no service. All services with three endpoints and the same policy go through the
same chain; which three they are is looked up with the packet's own destination.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import assert_never

import msgspec

from kubeproxy.dataplane.nftables import language as nft
from kubeproxy.dataplane.nftables import names
from kubeproxy.dataplane.nftables.program import endpoint_hash, is_pod, shared_place
from kubeproxy.table.entries import Balance
from kubeproxy.table.node import NodeView


class Pick(msgspec.Struct, frozen=True):
    """Choose one of `count` endpoints of a frontend: of all, or of those of this node.

    `sticky` looks for the one that the client had before; `masquerade` marks the packet first.
    """

    node_port: bool
    local: bool
    count: int
    sticky: bool = False
    balance: Balance = Balance.RANDOM
    masquerade: bool = False

    @property
    def chain(self) -> str:
        """The name of its chain."""
        words = [
            "masquerade" if self.masquerade else "",
            "nodeport" if self.node_port else "",
            "pick",
            "local" if self.local else "",
            str(self.count),
            "" if self.balance is Balance.RANDOM else self.balance.value,
            "sticky" if self.sticky else "",
        ]
        return "-".join(word for word in words if word)


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

    pod: Pick | Remember
    host: Pick | Remember
    outside: Pick | Remember | None

    @property
    def chain(self) -> str:
        """The name of its chain."""
        if isinstance(self.pod, Remember):
            prefix = "nodeport-" if self.pod.node_port else ""
            return f"{prefix}remember-split-{self.pod.seconds}"
        outside = self.outside
        here = outside.count if isinstance(outside, Pick) and not outside.masquerade else 0
        return f"local-{here}-of-{self.pod.chain}"


Choice = Pick | Remember | Split


def chains_map(chain: str) -> str:
    """The map in which the chain of a choice is found by its number."""
    remembers = chain.removeprefix("nodeport-").startswith("remember-")
    return names.REMEMBER_CHAINS if remembers else names.CHOICE_CHAINS


_COUNTS = re.compile(r"(?:local-(\d+)-of-)?(?:masquerade-)?(?:nodeport-)?pick-(local-)?(\d+)")


def counts_in(chain: str) -> tuple[int, int]:
    """The lengths of the lists that the chain of a choice draws from: all, and this node's."""
    found = _COUNTS.match(chain)
    if found is None:
        return 0, 0
    beside, local, count = found.groups()
    return (0, int(count)) if local else (int(count), int(beside or 0))


def with_parts(choices: Iterable[Choice]) -> list[Choice]:
    """The choices and those that their chains lead to, which come first; otherwise by name."""
    found: set[Choice] = set()
    waiting: list[Choice] = list(choices)
    while waiting:
        choice = waiting.pop()
        if choice not in found:
            found.add(choice)
            waiting += _parts(choice)
    return sorted(found, key=lambda choice: (_depth(choice), choice.chain))


def uses(wanted: Mapping[Choice, int]) -> Counter[str]:
    """How many frontends come to each chain, given how many make each choice."""
    found: Counter[str] = Counter()
    for choice, frontends in wanted.items():
        for chain in _chains_of(choice):
            found[chain] += frontends
    return found


@lru_cache(maxsize=4096)
def _chains_of(choice: Choice) -> tuple[str, ...]:
    return tuple(each.chain for each in with_parts([choice]))


def _parts(choice: Choice) -> list[Choice]:
    match choice:
        case Pick(masquerade=True):
            return [msgspec.structs.replace(choice, masquerade=False)]
        case Pick(sticky=True):
            return [msgspec.structs.replace(choice, sticky=False)]
        case Pick() | Remember():
            return []
        case Split(pod, host, outside):
            return [pod, host] if outside is None else [pod, host, outside]
        case _:
            assert_never(choice)


def _depth(choice: Choice) -> int:
    return 1 + max((_depth(part) for part in _parts(choice)), default=0)


def chain_of(choice: Choice, node: NodeView) -> nft.Chain:
    """The chain of a choice."""
    headers = nft.HEADERS[node.family]
    rules: tuple[nft.Rule, ...]
    match choice:
        case Pick(masquerade=True):
            (pick,) = _parts(choice)
            rules = ((nft.jump(names.MARK_TO_MASQUERADE),), (nft.goto(pick.chain),))
        case Pick(sticky=True):
            (plain,) = _parts(choice)
            pinned = names.pinned_chain(node_port=choice.node_port, local=choice.local)
            rules = ((nft.jump(pinned),), (nft.goto(plain.chain),))
        case Pick():
            list_ = names.LISTS[choice.node_port, choice.local]
            slot = nft.SetPriority((_slot(choice, headers),))
            rules = ((slot, nft.goto(names.draw_chain(list_))),)
        case Remember():
            rules = _remember(choice, headers)
        case Split():
            rules = _split(choice, node, headers)
        case _:
            assert_never(choice)
    return nft.Chain(choice.chain, rules)


def _slot(choice: Pick, headers: nft.Headers) -> nft.Selector:
    match choice.balance:
        case Balance.RANDOM:
            return nft.numgen(choice.count, offset=names.FIRST_SLOT)
        case Balance.ROUND_ROBIN:
            return nft.numgen(choice.count, random=False, offset=names.FIRST_SLOT)
        case Balance.SOURCE_HASH:
            return nft.source_hash(headers.saddr, choice.count, offset=names.FIRST_SLOT)
        case _:
            assert_never(choice.balance)


def _split(choice: Split, node: NodeView, headers: nft.Headers) -> tuple[nft.Rule, ...]:
    rules: list[nft.Rule] = [(nft.OWN_SOURCE, nft.goto(choice.host.chain))]
    pod = is_pod(node, headers)
    if pod is not None:
        rules.insert(0, (pod, nft.goto(choice.pod.chain)))
    if choice.outside is not None:
        rules.append((nft.goto(choice.outside.chain),))
    return tuple(rules)


def _remember(choice: Remember, headers: nft.Headers) -> tuple[nft.Rule, ...]:
    frontend = () if choice.node_port else (headers.original_daddr,)
    number = (*frontend, nft.L4PROTO, nft.ORIGINAL_DPORT), names.NUMBERS[choice.node_port]
    own, shared = names.PINS[choice.local], names.SHARED_PINS[choice.local]
    endpoint = (endpoint_hash(headers),), choice.seconds
    remember = nft.remember(own, (nft.PRIORITY, headers.saddr), *endpoint)
    share = nft.remember(shared, shared_place(headers.saddr), *endpoint)
    return (
        *((each, nft.SetPriority(*number)) for each in nft.PROTOCOLS),
        # A rule ends where the map has no room for its element.
        (remember, nft.SetPriority(), nft.RETURN),
        (share, nft.UseCounter(names.AFFINITY_FULL)),
        (nft.SetPriority(),),
    )
