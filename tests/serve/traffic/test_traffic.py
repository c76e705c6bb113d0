"""When the kernel is read, what is remembered, and what a failed reading does."""

import threading
from collections.abc import Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import ConnectionCounts, Count, Counts
from kubeproxy.serve.traffic import traffic as module
from kubeproxy.serve.traffic.totals import PortRates
from kubeproxy.serve.traffic.traffic import ATTENTION, FRESH, Traffic, gently
from kubeproxy.table.entries import Frontend, FrontendKind, ServicePortName

CART = ServicePortName("shop", "cart", "http", Protocol.TCP)
FRONTEND = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)


class Kernel:
    """Counts what a test says, and how often it is read."""

    def __init__(self) -> None:
        self.value = 0
        self.epoch = 1
        self.readings = 0
        self.error: KernelError | None = None
        self.is_busy = False

    def connections(self) -> ConnectionCounts | None:
        self.readings += 1
        if self.error is not None:
            raise self.error
        if self.is_busy:
            return None
        return ConnectionCounts(self.epoch, [(CART, [Count(FRONTEND, b"c", self.value)])])


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def traffic(kernel: Kernel, clock: Clock) -> Traffic:
    return Traffic({Family.IPV4: kernel}, clock)


def total(traffic: Traffic) -> int:
    return traffic.totals()[Family.IPV4].tallies[CART].frontends[FRONTEND]


def test_the_fake_counts(kernel: Kernel) -> None:
    assert isinstance(kernel, Counts)


def test_nothing_is_read_before_somebody_asks(traffic: Traffic, kernel: Kernel) -> None:
    assert traffic is not None
    assert kernel.readings == 0


def test_a_reading_serves_all_who_ask_within_a_second(
    traffic: Traffic, kernel: Kernel, clock: Clock
) -> None:
    kernel.value = 5
    assert total(traffic) == 5
    kernel.value = 6
    clock.now += FRESH / 2
    assert total(traffic) == 5
    clock.now += FRESH / 2
    assert total(traffic) == 6
    assert kernel.readings == 2


def test_a_table_that_is_made_anew_takes_nothing_away(
    traffic: Traffic, kernel: Kernel, clock: Clock
) -> None:
    kernel.value = 5
    assert total(traffic) == 5
    clock.now += FRESH
    kernel.value, kernel.epoch = 7, 2
    assert total(traffic) == 12


@pytest.mark.parametrize("trouble", ["an-error", "a-full-sync"])
def test_what_cannot_be_read_stays_as_it_was(
    traffic: Traffic, kernel: Kernel, clock: Clock, trouble: str
) -> None:
    kernel.value = 5
    assert total(traffic) == 5
    clock.now += FRESH
    if trouble == "an-error":
        kernel.error = KernelError("no more")
    else:
        kernel.is_busy = True
    assert total(traffic) == 5
    kernel.error, kernel.is_busy, kernel.value = None, False, 6
    assert total(traffic) == 6


def test_before_the_first_sync_there_is_nothing(traffic: Traffic, kernel: Kernel) -> None:
    kernel.is_busy = True
    assert traffic.totals() == {}


def test_rates_need_somebody_who_keeps_asking(
    traffic: Traffic, kernel: Kernel, clock: Clock
) -> None:
    def looked() -> tuple[float, PortRates | None]:
        look = traffic.looks()[Family.IPV4]
        return look.seconds, look.rates(CART)

    kernel.value = 5
    assert looked() == (0.0, None)
    clock.now += 2.0
    kernel.value = 9
    assert looked() == (2.0, PortRates({FRONTEND: 2.0}))
    clock.now += FRESH / 2
    assert looked() == (2.0, PortRates({FRONTEND: 2.0}))
    clock.now += ATTENTION + 1
    assert looked() == (0.0, None)


def test_scrapes_alone_keep_no_second_reading(
    traffic: Traffic, kernel: Kernel, clock: Clock
) -> None:
    for kernel.value in (5, 6, 7):
        traffic.totals()
        clock.now += 10.0
    assert not traffic._before


def test_two_threads_share_one_reading(traffic: Traffic, kernel: Kernel) -> None:
    threads = [threading.Thread(target=traffic.totals) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kernel.readings == 1


def test_others_get_their_turn_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("kubeproxy.serve.traffic.traffic.time.sleep", pauses.append)

    def many() -> Iterator[int]:
        yield from range(3 * module.PIECE + 1)

    assert list(gently(many())) == list(range(3 * module.PIECE + 1))
    assert pauses == [module.PAUSE] * 3
