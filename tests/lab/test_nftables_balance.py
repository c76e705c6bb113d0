"""Which endpoint new connections get: all equally often, each in turn, or the same."""

import random
from collections import Counter
from collections.abc import Sequence
from math import sqrt

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.table.entries import Backend, Balance, Entry
from lab.entries import served
from lab.farm import PORT, crop
from lab.plan import cluster_ip
from lab.plane import Plane
from lab.salvo import Hit, Salvo

DRAWS = 6_000
ONE_IN_A_MILLION = 4.7534
"""So many standard deviations are exceeded by chance once in a million times."""


def service(numbers: Sequence[int], family: Family, balance: Balance = Balance.RANDOM) -> Entry:
    backends = [crop(number, family) for number in numbers]
    entry = served(1, backends, family, Protocol.UDP)
    return msgspec.structs.replace(entry, balance=balance)


def draw(salvo: Salvo, family: Family, count: int, clients: int = 60) -> list[Hit]:
    hits = salvo.fire([(cluster_ip(1, family), 80)] * count, clients)
    assert len(hits) == count
    return hits


def answered(backend: Backend) -> str:
    return f"{backend.address} {PORT}"


def assert_even(hits: Sequence[Hit], backends: Sequence[Backend]) -> None:
    """Fail when an even choice would be that uneven once in a million times.

    The bound is that of the chi-square test, in the approximation of Wilson and Hilferty.
    """
    share = Counter(hit.endpoint for hit in hits)
    assert share.keys() <= set(map(answered, backends))
    mean = len(hits) / len(backends)
    uneven = sum((share[answered(each)] - mean) ** 2 for each in backends) / mean
    spread = 2 / (9 * (len(backends) - 1))
    bound = (len(backends) - 1) * (1 - spread + ONE_IN_A_MILLION * sqrt(spread)) ** 3
    assert uneven < bound, share


@pytest.mark.parametrize("count", [2, 3, 7, 100])
@pytest.mark.parametrize("family", [Family.IPV4], indirect=True, ids=["IPv4"])
def test_endpoints_share_evenly(kestrel: Plane, salvo: Salvo, count: int) -> None:
    kestrel.put([service(range(count), Family.IPV4)])
    assert_even(draw(salvo, Family.IPV4, DRAWS), kestrel.entry.cluster)


def test_they_do_after_any_changes(kestrel: Plane, salvo: Salvo) -> None:
    family = kestrel.node.family
    chance = random.Random(3)
    numbers = list(range(20))
    for _ in range(50):
        if chance.random() < 0.5:
            numbers.remove(chance.choice(numbers))
        else:
            numbers.append(max(numbers) + 1)
        kestrel.put([service(numbers, family)])
    assert_even(draw(salvo, family, DRAWS), kestrel.entry.cluster)


@pytest.mark.usefixtures("stage")
def test_an_uneven_choice_would_be_noticed() -> None:
    backends = [crop(number) for number in range(3)]
    share = {0: 1780, 1: 2110, 2: 2110}  # one gets 11 % too little
    hits = [Hit("", "", answered(backends[n])) for n in share for _ in range(share[n])]
    with pytest.raises(AssertionError):
        assert_even(hits, backends)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_in_turn(kestrel: Plane, salvo: Salvo, count: int) -> None:
    """One service, one packet at a time: the turn is that of the list, without an exception."""
    family = kestrel.node.family
    kestrel.put([service(range(count), family, Balance.ROUND_ROBIN)])
    order = [hit.endpoint for hit in draw(salvo, family, 50 * count, clients=1)]
    assert set(order) == {answered(crop(number, family)) for number in range(count)}
    assert len(set(order[:count])) == count
    assert order == order[:count] * 50


def test_a_client_always_gets_the_same(kestrel: Plane, salvo: Salvo) -> None:
    family = kestrel.node.family
    kestrel.put([service(range(7), family, Balance.SOURCE_HASH)])
    first = {hit.client: hit.endpoint for hit in draw(salvo, family, 60)}
    assert len(set(first.values())) == 7
    for _ in range(20):
        assert {hit.client: hit.endpoint for hit in draw(salvo, family, 60)} == first
