"""Which endpoints are left out, and until when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.failures import UNKNOWN, Endpoint, Failure, Reason
from kubeproxy.engine.ejection import Ejection, Ejector, Limits
from kubeproxy.table.entries import Backend, Entry, FrontendKey, ServicePortName

NAME = ServicePortName("shop", "web", "http", Protocol.TCP)
TO = FrontendKey("10.112.0.1", Protocol.TCP, 80)
LIMITS = Limits(failures=3, interval=10.0, seconds=5.0, most_seconds=15.0, percent=50)


def backend(number: int, *, local: bool = False) -> Backend:
    return Backend(f"10.64.0.{number}", 8080, local)


def at(number: int) -> Endpoint:
    return Endpoint(f"10.64.0.{number}", 8080)


def web(count: int = 4, healing: Healing = Healing.ALL) -> Entry:
    return Entry(NAME, (), tuple(map(backend, range(count))), healing=healing)


def failed(number: int, client: str = "a", times: int = 1) -> Failure:
    return Failure(Reason.REFUSED, client, TO, at(number), times)


class Rig:
    def __init__(self, entry: Entry | None = None, limits: Limits = LIMITS) -> None:
        self.entry = entry or web()
        self.ejector = Ejector(limits)
        self.full: list[ServicePortName] = []

    def see(self, now: float, *failures: Failure) -> list[int]:
        """The numbers of the endpoints that are left out from now on."""
        ejected, self.full = self.ejector.observe(((f, self.entry) for f in failures), now)
        return [int(each.endpoint.address.rpartition(".")[2]) for each in ejected]

    def out(self, now: float) -> list[Ejection]:
        return self.ejector.of(NAME, now)


def test_three_failures_of_two_clients_are_enough() -> None:
    rig = Rig()
    assert rig.see(0.0, failed(1), failed(1, "b")) == []
    assert rig.see(1.0, failed(1)) == [1]
    (ejection,) = rig.out(1.0)
    assert ejection == Ejection(NAME, at(1), 6.0, Reason.REFUSED, 3, 2, 1)
    assert rig.out(6.0) == []


def test_one_client_alone_must_see_nine() -> None:
    rig = Rig()
    assert rig.see(0.0, failed(1, times=8)) == []
    assert rig.see(1.0, failed(1)) == [1]


def test_failures_of_long_ago_do_not_count() -> None:
    rig = Rig()
    assert rig.see(0.0, failed(1), failed(1, "b")) == []
    assert rig.see(10.0, failed(1)) == []


def test_one_that_is_left_out_is_not_left_out_again_meanwhile() -> None:
    rig = Rig()
    assert rig.see(0.0, failed(1, times=2), failed(1, "b")) == [1]
    assert rig.see(1.0, failed(1, times=9), failed(1, "b")) == []


@pytest.mark.parametrize(
    ("fails_at", "until"),
    [
        pytest.param(5.0, 15.0, id="at-once-twice-as-long"),
        pytest.param(9.9, 19.9, id="on-trial-for-as-long-as-it-was-out"),
    ],
)
def test_one_that_fails_again_is_left_out_at_its_first_failure(
    fails_at: float, until: float
) -> None:
    rig = Rig()
    rig.see(0.0, failed(1, times=2), failed(1, "b"))
    assert rig.see(fails_at, failed(1)) == [1]
    (ejection,) = rig.out(fails_at)
    assert ejection.until == pytest.approx(until)
    assert ejection.times == 2


def test_the_time_doubles_up_to_the_most() -> None:
    rig = Rig()
    now, lengths = 0.0, []
    rig.see(now, failed(1, times=2), failed(1, "b"))
    for _ in range(4):
        (ejection,) = rig.out(now)
        lengths.append(ejection.until - now)
        now = ejection.until
        rig.see(now, failed(1))
    assert lengths == [5.0, 10.0, 15.0, 15.0]


def test_one_that_passed_its_trial_begins_anew() -> None:
    rig = Rig()
    rig.see(0.0, failed(1, times=2), failed(1, "b"))
    assert rig.see(10.0, failed(1)) == []
    assert rig.see(11.0, failed(1, "b", times=2)) == [1]
    assert rig.out(11.0)[0].times == 1


def test_never_more_than_the_share() -> None:
    rig = Rig(web(4))
    every = [each for n in range(4) for each in (failed(n, times=2), failed(n, "b"))]
    assert rig.see(0.0, *every[:6]) == [0, 1]
    assert rig.full == [NAME]
    assert rig.see(0.1, *every[6:]) == []


@pytest.mark.parametrize(("count", "expected"), [(1, []), (2, [1]), (3, [1])])
def test_never_the_last_one(count: int, expected: list[int]) -> None:
    rig = Rig(web(count), replace(LIMITS, percent=100))
    number = min(1, count - 1)
    assert rig.see(0.0, failed(number, times=2), failed(number, "b")) == expected


def test_a_share_of_none_leaves_none_out() -> None:
    rig = Rig(web(4), replace(LIMITS, percent=0))
    assert rig.see(0.0, failed(1, times=2), failed(1, "b")) == []
    assert rig.full == [NAME]


def test_the_share_holds_for_the_endpoints_of_this_node_too() -> None:
    local = tuple(backend(number, local=True) for number in range(2))
    entry = replace(web(), cluster=(*local, *map(backend, range(2, 8))), local=local)
    rig = Rig(entry)
    assert rig.see(0.0, failed(0, times=2), failed(0, "b")) == [0]
    assert rig.see(0.1, failed(1, times=2), failed(1, "b")) == []
    assert rig.full == [NAME]
    assert rig.see(0.2, failed(5, times=2), failed(5, "b")) == [5]


def test_when_all_fail_none_is_left_out() -> None:
    rig = Rig(web(3))
    every = [failed(n, client) for n in range(3) for client in "ab"]
    assert rig.see(0.0, *every) == []
    assert rig.see(0.1, *every) == []
    assert rig.full == []


def test_another_one_that_is_left_out_is_no_reason_to_leave_one_out() -> None:
    rig = Rig(web(3), replace(LIMITS, percent=100))
    rig.see(0.0, failed(0, times=2), failed(0, "b"))
    rig.entry = replace(rig.entry, cluster=(backend(1), backend(2)), ejected=(backend(0),))
    rig.see(0.1, failed(2))
    assert rig.see(0.2, failed(1, times=2), failed(1, "b")) == []
    assert rig.full == [NAME], "one more fails than are left out"


@pytest.mark.parametrize(
    ("entry", "failure"),
    [
        pytest.param(
            web(healing=Healing.RETRY_REFUSED),
            failed(1, times=9),
            id="who-does-not-ask",
        ),
        pytest.param(web(), failed(77, times=9), id="an-endpoint-that-has-gone"),
        pytest.param(web(), failed(1, times=9)._replace(endpoint=UNKNOWN), id="an-unknown-one"),
    ],
)
def test_what_is_not_noted(entry: Entry, failure: Failure) -> None:
    rig = Rig(entry)
    assert rig.see(0.0, failure) == []
    assert rig.out(0.0) == []


def test_records_are_forgotten_when_they_say_nothing_any_more() -> None:
    rig = Rig()
    rig.see(0.0, failed(1, times=2), failed(1, "b"), failed(2))
    rig.ejector.forget({NAME: rig.entry}, 9.0)
    assert rig.see(9.0, failed(1)) == [1], "it was on trial"
    rig.ejector.forget({NAME: rig.entry}, 100.0)
    assert rig.see(100.0, failed(1)) == []


@pytest.mark.parametrize("entries", [{}, {NAME: web(1)}], ids=["service", "endpoint"])
def test_what_has_gone_is_forgotten(entries: dict[ServicePortName, Entry]) -> None:
    rig = Rig()
    rig.see(0.0, failed(1, times=2), failed(1, "b"))
    rig.ejector.forget(entries, 1.0)
    assert rig.out(1.0) == []


@given(
    st.integers(1, 8),
    st.lists(
        st.tuples(st.floats(0, 20), st.integers(0, 8), st.sampled_from("abc"), st.integers(1, 9)),
        max_size=60,
    ),
)
def test_there_is_always_one_left_and_never_more_than_half_out(
    count: int, failures: list[tuple[float, int, str, int]]
) -> None:
    """There are always endpoints left, and no more than a share of them is left out."""
    rig, now = Rig(web(count)), 0.0
    for pause, number, client, times in failures:
        now += pause
        rig.see(now, failed(number, client, times))
        out = {each.endpoint.address for each in rig.out(now)}
        kept = tuple(each for each in web(count).cluster if each.address not in out)
        gone = tuple(each for each in web(count).cluster if each.address in out)
        assert kept
        assert 2 * len(gone) <= count
        rig.entry = replace(rig.entry, cluster=kept, ejected=gone)
