"""A plan's statements, and what real packets meet: who notices a change, at which destination."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from kubeproxy.base.inet import Family, Prefix, Protocol, contains, join, parse_prefix
from kubeproxy.plan.outcome import Effect
from kubeproxy.plan.wire import Notice, Plan
from kubeproxy.table.decide import Packet
from lab.dialer import Dialer
from lab.documents import complete
from lab.launch import Program, Ran
from lab.namespaces import Namespace
from lab.outcome import Outcome
from lab.pairs import Pair
from lab.plan import HOSTS, UNDEFINED_PORT
from world import NODE_ADDRESSES

TRIES = 24
"""With two endpoints, one is missed by chance once in 16 million times."""
CLIENTS = {
    "P": "pods",
    "H": "this node",
    "X": "outside",
    "LO": "this node, by its loopback address",
}
_SEEN_BY_NOBODY = frozenset(
    {
        *(Effect.AFFINITY_LOST, Effect.AFFINITY_CHANGED, Effect.CHOSEN_OTHERWISE),
        *(Effect.FLOWS_CUT, Effect.HEALTHY, Effect.UNHEALTHY, Effect.HEALED_OTHERWISE),
    }
)
"""What the first packets of single clients do not show."""
_OF_ADDRESSES = frozenset({Effect.HIDDEN, Effect.SHOWN})

Seen = frozenset[tuple[object, ...]]


class Noticed(NamedTuple):
    """A client that notices something at a destination."""

    source: str
    at: str


def planned(node: Namespace, *arguments: str) -> tuple[int, Plan]:
    """What the command says on the node, and its exit code."""
    ran = run_plan(node, *arguments, "-ojson")
    assert ran.code in {0, 1}, ran.err
    assert ran.out, ran.err
    return ran.code, msgspec.convert(json.loads(ran.out), Plan)


def run_plan(node: Namespace, *arguments: str) -> Ran:
    """The command, at the end of a pipe."""
    with node.entered():
        return Program().tool(["plan", *arguments], {**os.environ, "PYTHONWARNINGS": "error"})


def write_change(path: Path, documents: Iterable[Mapping[str, object]]) -> str:
    """The documents as a file of a change."""
    path.write_text(yaml.safe_dump_all(map(complete, documents)))
    return str(path)


# --- what packets meet ------------------------------------------------------------------------


def observe(dialer: Dialer, pairs: Sequence[Pair]) -> dict[Pair, Seen]:
    """What becomes of the first packets of each pair, in many tries."""
    batch = [pair for pair in pairs for _ in range(TRIES)]
    outcomes = dialer.dial([pair.probe() for pair in batch])
    found: dict[Pair, set[tuple[object, ...]]] = {pair: set() for pair in pairs}
    for pair, outcome in zip(batch, outcomes, strict=True):
        found[pair].add(_seen(pair, outcome))
    return {pair: frozenset(seen) for pair, seen in found.items()}


def _seen(pair: Pair, outcome: Outcome) -> tuple[object, ...]:
    """The node's own address hides nothing: it is the same one."""
    hides = outcome.saw is not None and outcome.saw.address != outcome.sent_from.address
    return outcome.fate, outcome.at, hides and HOSTS[pair.source].interface != ""


def really_noticed(before: Mapping[Pair, Seen], after: Mapping[Pair, Seen]) -> set[Noticed]:
    """The pairs that meet something else."""
    assert before.keys() == after.keys()
    return {
        Noticed(pair.source, _at(pair.packet))
        for pair, seen in before.items()
        if seen != after[pair]
    }


def _at(packet: Packet) -> str:
    if packet.protocol is None:
        return f"ping {packet.destination}"
    return f"{join(packet.destination, packet.port)}/{packet.protocol.name}"


# --- what the plan says -----------------------------------------------------------------------


def said_to_be_noticed(
    plan: Plan, pairs: Iterable[Pair], documents: Iterable[Mapping[str, object]]
) -> set[Noticed]:
    """The pairs that the plan names; the documents have the ranges that tell clients apart."""
    ranges = _ranges(documents)
    notices = [*plan.addresses, *(each for one in plan.services for each in one.notices)]
    return {
        Noticed(pair.source, _at(pair.packet))
        for pair in pairs
        if any(
            _names(notice, pair, ranges)
            for notice in notices
            if notice.effect not in _SEEN_BY_NOBODY
        )
    }


def _ranges(documents: Iterable[Mapping[str, object]]) -> list[Prefix]:
    texts = [
        text.strip()
        for document in documents
        for text in msgspec.convert(document.get("spec", {}), _Spec).ranges
    ]
    return [range_ for range_ in map(parse_prefix, texts) if range_ is not None]


class _Spec(msgspec.Struct):
    """What is read of a Service."""

    ranges: tuple[str, ...] = msgspec.field(name="loadBalancerSourceRanges", default=())


def _names(notice: Notice, pair: Pair, ranges: Sequence[Prefix]) -> bool:
    client, packet = CLIENTS[pair.source], pair.packet
    within = next(
        (str(each) for each in ranges if contains(each, packet.source)), "no source range"
    )
    if {client, f"{client} (in {within})"}.isdisjoint(notice.clients):
        return False
    if pair.source in {"H", "LO"} and notice.effect in _OF_ADDRESSES:
        return False
    return any(_is_at(notice, at, packet) for at in notice.at)


def _is_at(notice: Notice, at: str, packet: Packet) -> bool:
    """Of addresses of the node that are alike, one is named: `... and 3 more addresses`."""
    if packet.protocol is None:
        return notice.place == "ping" and at == packet.destination
    if notice.place == "ping":
        return False
    named, alike, _ = at.partition(" and ")
    if alike and packet.destination in NODE_ADDRESSES[Family.IPV4][1:]:
        return named.rpartition(":")[2] == _at(packet).rpartition(":")[2]
    return named == _at(packet)


def probes_of(
    targets: Iterable[tuple[str, Protocol | None, int]], sources: Iterable[str]
) -> list[Pair]:
    """Every source at every destination in IPv4; loopback addresses reach each other alone."""
    return [
        Pair(source, Packet(HOSTS[source].ipv4, address, protocol, port, HOSTS[source].interface))
        for address, protocol, port in targets
        for source in sources
        if address.startswith("127.") == (source == "LO")
    ]


def around(*addresses: str) -> list[tuple[str, Protocol | None, int]]:
    """Beside the ports of addresses: a ping, and a port that no Service has."""
    return [
        each
        for address in addresses
        for each in ((address, None, 0), (address, Protocol.TCP, UNDEFINED_PORT))
    ]
