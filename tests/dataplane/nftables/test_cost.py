"""A sync costs what changed, however much exists."""

from collections.abc import Callable
from functools import cache

import msgspec
import pytest

from dataplane.nftables.programming import SETTINGS
from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables.batch import batch_messages
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.dataplane.nftables.state import Programmed, Step, commit, reconcile, step
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName
from world import Mode, node

HERE = node(Mode.NFTABLES)
PROGRAM = program(HERE, SETTINGS)


def backends(count: int) -> tuple[Backend, ...]:
    return tuple(
        Backend(f"10.{64 + i // 65536}.{i // 256 % 256}.{i % 256}", 8080) for i in range(count)
    )


def service(number: int, endpoints: int) -> Entry:
    """A service port with every kind of frontend but a load balancer's."""
    octets = f"{number // 256}.{number % 256}"
    return Entry(
        ServicePortName("shop", f"s{number}", "", Protocol.TCP),
        (
            Frontend(FrontendKind.CLUSTER_IP, f"10.112.{octets}", 80),
            Frontend(FrontendKind.EXTERNAL_IP, f"198.18.{octets}", 80),
            Frontend(FrontendKind.NODE_PORT, "", 30000 + number),
        ),
        cluster=backends(endpoints),
        has_endpoints=True,
    )


@cache
def settled(services: int, endpoints: int) -> tuple[Programmed, list[Entry]]:
    """What is remembered of a cluster of so many services with so many endpoints each."""
    entries = [service(number, endpoints) for number in range(services)]
    return filled(entries)[0], entries


def filled(entries: list[Entry]) -> tuple[Programmed, Step]:
    state = Programmed(PROGRAM, HERE, chains={chain.name for chain in PROGRAM.chains})
    done = reconcile(state, entries, {}, HERE)
    commit(state, done, HERE)
    return state, done


NEWCOMER = Backend("10.99.0.1", 8080)
Change = Callable[[tuple[Backend, ...]], tuple[Backend, ...]]
CHANGES = [
    pytest.param(lambda known: known[:3] + known[4:], id="one-endpoint-leaves"),
    pytest.param(lambda known: (*known, NEWCOMER), id="one-endpoint-comes"),
    pytest.param(lambda known: (*known[:3], NEWCOMER, *known[4:]), id="one-endpoint-is-replaced"),
]


def messages_of(services: int, endpoints: int, change: Change) -> list[bytes]:
    """What is sent when the endpoints of one of the services change."""
    state, entries = settled(services, endpoints)
    before = entries[3]
    after = msgspec.structs.replace(before, cluster=change(before.cluster))
    return batch_messages(PROGRAM, step(state, [before], [after], HERE).batch)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_costs_the_same_among_10_and_5000_services(change: Change) -> None:
    small, medium, large = (messages_of(count, 5, change) for count in (10, 1000, 5000))
    assert [*map(len, small)] == [*map(len, medium)] == [*map(len, large)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_costs_the_same_among_10_and_5000_endpoints(change: Change) -> None:
    small, medium, large = (messages_of(4, count, change) for count in (10, 1001, 5000))
    assert len(small) == len(medium) == len(large)
    # A chain is named after how many endpoints it chooses from: pick-10, pick-5000.
    assert sum(map(len, medium)) == sum(map(len, large))
    assert sum(map(len, large)) - sum(map(len, small)) <= 4 * len(large)


def test_one_endpoint_that_is_replaced_is_one_element_of_each_list() -> None:
    state, entries = settled(4, 10)
    replaced = (*entries[3].cluster[:-1], NEWCOMER)
    after = msgspec.structs.replace(entries[3], cluster=replaced)
    batch = step(state, [entries[3]], [after], HERE).batch
    lists = {"service-endpoints": 2, "nodeport-endpoints": 1}
    assert lists == {name: len(each) for name, each in batch.deleted.items()}
    assert lists == {name: len(each) for name, each in batch.added.items()}
    assert batch.chains == []


def test_chains_and_rules_do_not_grow_with_services() -> None:
    few = [service(number, 1 + number % 3) for number in range(10)]
    many = [service(number, 1 + number % 3) for number in range(10_000)]
    assert filled(few)[1].batch.chains == filled(many)[1].batch.chains
