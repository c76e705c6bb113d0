import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.dataplane.nftables.placed import rearrange
from kubeproxy.table.entries import Backend


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
    for place, backend in enumerate(before[: len(after)]):
        if backend in wanted:
            assert backend == after[place]


@given(lists, lists)
def test_no_more_places_change_than_backends_come_and_go(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    after = rearrange(before, wanted)
    came, left = set(wanted) - set(before), set(before) - set(wanted)
    padded = [*after, *[None] * (len(before) - len(after))]
    now = [*before, *[None] * (len(after) - len(before))]
    changed = [
        place for place, pair in enumerate(zip(now, padded, strict=True)) if len({*pair}) > 1
    ]
    # One that comes takes the place of one that leaves. A list that shrinks also loses its last
    # places, and what stood there fills a hole.
    shrinks_by = max(0, len(before) - len(after))
    assert len(changed) <= max(len(came), len(left)) + shrinks_by


@given(st.lists(st.sampled_from("abcdef")).map("".join).map(backends), lists)
def test_a_list_from_the_kernel_may_name_a_backend_twice(
    before: tuple[Backend, ...], wanted: tuple[Backend, ...]
) -> None:
    assert sorted(wanted) == sorted(rearrange(before, wanted))
