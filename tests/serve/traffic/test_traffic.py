"""When the kernel is read, what is remembered, and what a failed reading does."""

import threading
from collections.abc import Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import ConnectionCounts, Count, Counts
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.traffic import traffic as module
from kubeproxy.serve.traffic.series import Detail, SeriesLimits
from kubeproxy.serve.traffic.totals import PortRates
from kubeproxy.serve.traffic.traffic import ATTENTION, FRESH, Traffic, families, gently
from kubeproxy.table.entries import Backend, Frontend, FrontendKind, ServicePortName

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


def test_nothing_is_read_before_the_first_request(traffic: Traffic, kernel: Kernel) -> None:
    assert traffic is not None
    assert kernel.readings == 0


def test_a_reading_serves_all_requests_within_a_second(
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


def test_a_table_that_is_made_again_takes_nothing_away(
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


def test_rates_need_repeated_requests(traffic: Traffic, kernel: Kernel, clock: Clock) -> None:
    def rates() -> tuple[float, PortRates | None]:
        window = traffic.windows()[Family.IPV4]
        return window.seconds, window.rates(CART)

    kernel.value = 5
    assert rates() == (0.0, None)
    clock.now += 2.0
    kernel.value = 9
    assert rates() == (2.0, PortRates({FRONTEND: 2.0}))
    clock.now += FRESH / 2
    assert rates() == (2.0, PortRates({FRONTEND: 2.0}))
    clock.now += ATTENTION + 1
    assert rates() == (0.0, None)


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


# --- as a scrape shows them -------------------------------------------------------------------


class CountingKernel:
    def connections(self) -> ConnectionCounts:
        counts = [Count(FRONTEND, b"f", 5), Count(Backend("10.64.3.11", 8080), b"e", 4)]
        return ConnectionCounts(1, [(CART, counts)])


async def scraped(limits: SeriesLimits, *, endpoints: bool) -> str:
    registry = Registry()
    found = families(Traffic({Family.IPV4: CountingKernel()}), limits, endpoints=endpoints)
    registry.add(*found, in_thread=True)
    try:
        return "".join([piece async for piece in registry.expose()])
    finally:
        registry.close()


def samples(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


async def test_services_only() -> None:
    text = await scraped(SeriesLimits(), endpoints=False)
    assert "# TYPE kubeproxy_service_connections_total counter\n" in text
    assert samples(text) == [
        'kubeproxy_connections_series{metric="service",state="shown"} 1',
        'kubeproxy_connections_series{metric="service",state="merged"} 0',
        'kubeproxy_connections_series{metric="service",state="dropped"} 0',
        (
            'kubeproxy_service_connections_total{address="10.112.0.21:80",frontend="cluster-ip",'
            'ip_family="IPv4",namespace="shop",port="http",protocol="TCP",service="cart"} 5'
        ),
    ]


async def test_with_endpoints() -> None:
    text = await scraped(SeriesLimits(), endpoints=True)
    assert (
        'kubeproxy_endpoint_connections_total{endpoint="10.64.3.11:8080",ip_family="IPv4",'
        'namespace="shop",port="http",protocol="TCP",service="cart"} 4'
    ) in samples(text)
    assert 'kubeproxy_connections_series{metric="endpoint",state="shown"} 1' in samples(text)


async def test_none() -> None:
    assert await scraped(SeriesLimits(Detail.NONE), endpoints=True) == ""
