"""Endpoints that have left: which they are, and that the set has no others."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.nftables.plane import Plane, service
from fakes.nftables import FakeNftables
from kubeproxy.base.healing import Healing
from kubeproxy.dataplane.nftables import gone, names
from kubeproxy.dataplane.nftables.elements import key_in
from kubeproxy.dataplane.nftables.gone import Departures, departure, endpoint_head
from kubeproxy.table.entries import Backend, Entry, ServicePortName

WEB = service("web", 1).name
DB = service("db", 2).name


def pod(number: int) -> Backend:
    return Backend(f"10.64.0.{number}", 8080)


def with_pods(name: str, number: int, pods: str, *, affinity: int = 0) -> Entry:
    """A healed service; each letter is a pod, a small one can serve, a capital one cannot."""
    every = tuple(pod(ord(letter.lower())) for letter in pods)
    usable = tuple(pod(ord(letter)) for letter in pods if letter.islower())
    return msgspec.structs.replace(
        service(name, number, affinity=affinity),
        cluster=usable,
        pods=every,
        healing=Healing.RESET_GONE,
        has_selector=True,
    )


def left(plane: Plane) -> str:
    """The pods in the set, as letters."""
    heads = plane.table.sets[names.GONE].elements
    return "".join(sorted(chr(key_in(at)[3]) for at in heads))


async def test_a_pod_that_leaves_is_noted_with_the_change_itself() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "abc"))
    assert left(plane) == ""
    await plane.sync(with_pods("web", 1, "ac"))
    assert left(plane) == "b"
    assert plane.commits == 2


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        pytest.param("aBc", "", id="not-ready-or-terminating"),
        pytest.param("cab", "", id="another-order"),
        pytest.param("abcd", "", id="one-more"),
        pytest.param("d", "abc", id="all-others"),
    ],
)
async def test_who_has_left(after: str, expected: str) -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "abc"))
    await plane.sync(with_pods("web", 1, after))
    assert left(plane) == expected


async def test_a_pod_that_another_service_has_has_not_left() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"), with_pods("db", 2, "bc"))
    await plane.sync(with_pods("web", 1, "a"), with_pods("db", 2, "bc"))
    assert left(plane) == ""
    await plane.sync(with_pods("web", 1, "a"), with_pods("db", 2, "c"))
    assert left(plane) == "b"


async def test_a_pod_that_moves_between_services_has_not_left() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"), with_pods("db", 2, "c"))
    await plane.sync(with_pods("web", 1, "a"), with_pods("db", 2, "bc"))
    assert left(plane) == ""


async def test_a_pod_that_is_back_is_served() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"))
    await plane.sync(with_pods("web", 1, "a"))
    await plane.sync(with_pods("web", 1, "ab"))
    assert left(plane) == ""


async def test_a_pod_that_is_back_when_its_element_has_timed_out() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"))
    await plane.sync(with_pods("web", 1, "a"))
    plane.table.sets[names.GONE].elements.clear()
    await plane.sync(with_pods("web", 1, "ab"))
    assert left(plane) == ""


async def test_the_pods_of_a_service_that_is_removed_have_left() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"), with_pods("db", 2, "b"))
    await plane.sync(with_pods("db", 2, "b"))
    assert left(plane) == "a"


async def test_what_left_while_no_daemon_ran() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "abc"))
    again = plane.restarted()
    await again.sync(with_pods("web", 1, "aC"))
    assert left(again) == "b"


async def test_without_a_selector_what_left_meanwhile_may_not_have_been_a_pod() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "abc"))
    again = plane.restarted()
    await again.sync(msgspec.structs.replace(with_pods("web", 1, "a"), has_selector=False))
    assert left(again) == ""


async def test_what_is_back_while_no_daemon_ran_is_served() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"))
    await plane.sync(with_pods("web", 1, "a"))
    again = plane.restarted()
    await again.sync(with_pods("web", 1, "ab"))
    assert left(again) == ""


async def test_a_full_sync_keeps_what_is_known() -> None:
    plane = Plane(FakeNftables())
    await plane.sync(with_pods("web", 1, "ab"))
    await plane.sync(with_pods("web", 1, "a"))
    await plane.sync(with_pods("web", 1, "a"), full=True)
    assert left(plane) == "b"


def test_there_is_a_limit_to_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gone, "MOST_GONE", 2)
    known = Departures()
    gone.commit(known, departure(known, {}, {WEB: tuple(map(pod, range(5)))}))
    change = departure(known, {WEB: tuple(map(pod, range(5)))}, {})
    assert len(change.left) == 2
    gone.commit(known, change)
    assert known.gone == {*change.left}
    assert not known.present


Pods = dict[ServicePortName, tuple[Backend, ...]]


_SOME = st.sets(st.integers(1, 5))


@given(st.lists(st.fixed_dictionaries({WEB: _SOME, DB: _SOME})))
def test_whoever_was_there_and_is_not_has_left(
    states: list[dict[ServicePortName, set[int]]],
) -> None:
    """An endpoint has left when some entry had it and none has it now."""
    known, before, ever = Departures(), Pods(), set[bytes]()
    for state in states:
        after = {name: tuple(map(pod, sorted(numbers))) for name, numbers in state.items()}
        gone.commit(known, departure(known, before, after))
        before = after
        there = {endpoint_head(each) for pods in after.values() for each in pods}
        ever |= there
        assert known.gone == ever - there
