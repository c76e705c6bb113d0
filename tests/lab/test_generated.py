"""Generated clusters and changes: after each, some packets, and all connections of before."""

import signal

import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.table.decide import Action
from lab.connection import Connection
from lab.expectation import Expectation
from lab.generate import Cluster, Generator
from lab.modes import sampled
from lab.pairs import Pair, all_pairs
from lab.stage import Lab
from world import Mode

SEEDS = [
    *(pytest.param(seed, marks=pytest.mark.sctp) for seed in range(2)),
    2,
    *(pytest.param(seed, marks=sampled) for seed in range(3, 6)),
]
CHANGES = 10
PACKETS = 40
NEW_CONNECTIONS = 3


def documents(cluster: Cluster) -> list[dict[str, object]]:
    return [document for each in cluster.values() for document in each.documents()]


def steady_pairs(expected: Expectation, pairs: list[Pair]) -> list[Pair]:
    """TCP pairs that reach an endpoint, whichever is chosen."""

    def is_steady(pair: Pair) -> bool:
        verdict = expected.verdict(pair.packet)
        itself = any(choice.backend.address == pair.packet.source for choice in verdict.choices)
        return verdict.action is Action.FORWARD and not itself

    return [p for p in pairs if p.packet.protocol is Protocol.TCP and is_steady(p)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sequence_of_changes(lab: Lab, seed: int) -> None:
    generator = Generator(seed)
    cluster = generator.cluster()
    lab.run(documents=documents(cluster))
    connections: list[Connection] = []
    ever: dict[Pair, None] = {}  # what is gone must be gone: it is tried as well
    story = ["start"]
    for _ in range(CHANGES):
        pairs = all_pairs(lab.expectation())
        ever.update(dict.fromkeys(pairs))
        try:
            lab.compare(generator.choose(PACKETS, list(ever)))
            for connection in connections:
                connection.talk()
        except (AssertionError, OSError) as error:
            raise AssertionError(f"seed {seed}, after {story}: {error}") from error
        # A connection of ipvs mode ends with its virtual server or its endpoint.
        lasting = [] if lab.variant.mode is Mode.IPVS else steady_pairs(lab.expectation(), pairs)
        for pair in generator.choose(NEW_CONNECTIONS, lasting):
            packet = pair.packet
            connections.append(lab.connect(pair.source, packet.destination, packet.port))
        what, cluster = generator.change(cluster)
        story.append(what)
        lab.put(*documents(cluster))
        if generator.chance(0.15):
            story.append("restart")
            if lab.variant.mode.quirks.relays:  # connections end with it
                connections.clear()
                lab.close_connections()
            lab.restart(signal.SIGKILL if generator.chance(0.5) else signal.SIGTERM)
