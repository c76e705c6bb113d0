from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.nftables.places import LONG, Places, place, rearrange
from kubeproxy.table.diff import list_changes
from kubeproxy.table.entries import Backend, Entry, ServicePortName


def backends(names: str) -> tuple[Backend, ...]:
    return tuple(Backend(f"10.64.3.{ord(name)}", 8080) for name in names)


@pytest.mark.parametrize(
    ("before", "wanted", "expected"),
    [
        pytest.param("", "abc", "abc", id="a-new-list-is-in-the-order-wanted"),
        pytest.param("abc", "abc", "abc", id="nothing-changes"),
        pytest.param("abc", "cba", "abc", id="another-order-is-no-change"),
        pytest.param("abcd", "acd", "adc", id="the-last-takes-the-place-of-one-that-leaves"),
        pytest.param("abcd", "abc", "abc", id="the-last-one-leaves"),
        pytest.param("abc", "dabc", "abcd", id="a-newcomer-stands-at-the-end"),
        pytest.param("abc", "axc", "axc", id="a-new-one-takes-the-place-of-one-that-leaves"),
        pytest.param("abc", "xyz", "xyz", id="everybody-is-replaced"),
        pytest.param("abcdef", "fx", "fx", id="those-that-stay-come-before-new-ones"),
        pytest.param("aabc", "abc", "acb", id="a-kernel-that-has-one-twice"),
        pytest.param("abc", "", "", id="none-is-left"),
    ],
)
def test_places(before: str, wanted: str, expected: str) -> None:
    assert backends(expected) == rearrange(backends(before), backends(wanted))


lists = st.lists(st.sampled_from("abcdefghij"), unique=True).map("".join).map(backends)


@given(lists, lists)
def test_every_backend_that_is_wanted_has_one_place(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    assert sorted(wanted) == sorted(rearrange(before, wanted))


@given(lists, lists)
def test_a_backend_that_stays_keeps_its_place(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    after = rearrange(before, wanted)
    for at, backend in enumerate(before[: len(after)]):
        if backend in wanted:
            assert backend == after[at]


@given(lists, lists)
def test_no_more_places_change_than_backends_come_and_go(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    after = rearrange(before, wanted)
    came, left = set(wanted) - set(before), set(before) - set(wanted)
    padded = [*after, *[None] * (len(before) - len(after))]
    now = [*before, *[None] * (len(after) - len(before))]
    changed = [at for at, pair in enumerate(zip(now, padded, strict=True)) if len({*pair}) > 1]
    # One that comes takes the place of one that leaves. A list that shrinks also loses its last
    # places, and what stood there fills a hole.
    shrinks_by = max(0, len(before) - len(after))
    assert len(changed) <= max(len(came), len(left)) + shrinks_by


@given(st.lists(st.sampled_from("abcdef")).map("".join).map(backends), lists)
def test_a_list_from_the_kernel_may_name_a_backend_twice(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    assert sorted(wanted) == sorted(rearrange(before, wanted))


NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)


@given(st.lists(lists, min_size=2, max_size=6), st.sampled_from([0, LONG]))
def test_entries_that_are_replaced_have_the_same_places(
    history: list[tuple[Backend, ...]], more: int
) -> None:
    """However long a list is, and however often it changed."""
    many = tuple(Backend(f"10.66.{number >> 8}.{number & 255}", 80) for number in range(more))
    places = Places()
    now = place(Entry(NAME, (), cluster=many + history[0]), None, 0)
    for members in history[1:]:
        entry = Entry(NAME, (), cluster=many + members, local=members)
        expected = [
            rearrange(old, new)
            for old, new in ((now.cluster, entry.cluster), (now.local, entry.local))
        ]
        change = places.replace(now, entry, list_changes(now.entry, entry), (0, 0))
        assert expected == [change.after.cluster, change.after.local]
        for old, new, differ in (
            (now.cluster, change.after.cluster, change.cluster_places),
            (now.local, change.after.local, change.local_places),
        ):
            padded = zip_longest(old, new)
            assert [at for at, (one, other) in enumerate(padded) if one != other] == sorted(differ)
        places.commit(change)
        now = change.after


def test_an_entry_that_is_gone_and_comes_back_has_places_of_its_own() -> None:
    many = tuple(Backend(f"10.66.{number >> 8}.{number & 255}", 80) for number in range(LONG))
    places = Places()
    for backends in (many, many[::-1]):
        now = place(Entry(NAME, (), cluster=backends), None, 0)
        entry = Entry(NAME, (), cluster=backends[1:])
        change = places.replace(now, entry, list_changes(now.entry, entry), (0, 0))
        places.commit(change)
        assert change.after.cluster == rearrange(now.cluster, entry.cluster)
        places.forget(NAME)
