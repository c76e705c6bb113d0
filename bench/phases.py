"""One run of one proxy on one cluster, from its start to its end, measured from outside."""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from bench.changes import Expected, Fleet, Plan
from bench.cluster_server import ClusterServer
from bench.clusters import Size
from bench.figures import quantile
from bench.namespaces import node_namespace
from bench.notified import Notified
from bench.programmed import ENDPOINTS, UNKNOWN, Kernel, Programmed
from bench.proxies import Proxy, Running
from lab.namespaces import Namespace

SAMPLE = 20
BURST = 1000
ROLLING_SHARE = 0.1
TIMEOUT = 900.0
QUIET = 1.0
PAUSE = 0.02
FINE, COARSE = 0.0002, 0.002
"""Seconds between two looks at the kernel, while one change or while much is awaited."""


class Effort(msgspec.Struct, frozen=True):
    """How thoroughly to measure."""

    changes: int = 200
    counted: int = 10
    rest_seconds: float = 60.0


class Scene:
    """A proxy, the API server that it follows, and the kernel that it programs."""

    def __init__(self, namespace: Namespace, server: ClusterServer, proxy: Proxy) -> None:
        self.namespace = namespace
        self.server = server
        self.proxy = proxy
        self.kernel = Kernel(namespace)
        self.since = self.kernel.generation()
        self.running = Running(proxy, namespace, server)
        self.peak = 0.0
        self.largest = 0.0

    def note_peak(self) -> None:
        """Record its peak memory."""
        self.peak = max(self.peak, self.running.memory().peak)

    def wait(self, checks: Sequence[Callable[[], bool]], since: int, every: float) -> Programmed:
        """Wait until the kernel has it; raises when the proxy ends, or after a timeout."""
        deadline = time.monotonic() + TIMEOUT

        def go_on() -> None:
            self.running.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.proxy.title} did not program it in {TIMEOUT:.0f} s")

        return self.kernel.wait(checks, since, every, go_on)

    def stop(self) -> None:
        """Stop the proxy, and record the peak memory of it and its programs."""
        self.note_peak()
        self.largest = max(self.largest, self.peak, self.running.stop())

    def restart(self) -> None:
        """Stop the proxy and start it again."""
        self.stop()
        self.server.wait_left()
        self.since = self.kernel.generation()
        self.running = Running(self.proxy, self.namespace, self.server)

    def close(self) -> None:
        """Stop everything."""
        self.running.stop()
        self.kernel.close()


def measure(proxy: Proxy, size: Size, effort: Effort, seed: int) -> dict[str, float]:
    """All figures of one run; the seed decides which services change."""
    fleet, rng = Fleet(size), random.Random(seed)
    with node_namespace("node") as namespace, ClusterServer(namespace, size) as server:
        scene = Scene(namespace, server, proxy)
        try:
            return {
                **_cold(scene, fleet, rng),
                **_rest(scene, effort.rest_seconds),
                **_changes(scene, fleet, rng, effort),
                **_resizes(scene, fleet, rng, effort),
                **_many(scene, "burst", fleet.burst(BURST, rng)),
                **_many(scene, "rolling", fleet.rolling(ROLLING_SHARE, rng)),
                **_restart(scene, fleet, rng),
                "peak": scene.peak,
                "largest": scene.largest,
            }
        finally:
            scene.close()


def warm_up(proxy: Proxy) -> None:
    """Start a proxy once, unmeasured: its files are in memory then, and its Python is compiled."""
    fleet = Fleet(Size(10, 1))
    with node_namespace("node") as namespace, ClusterServer(namespace, fleet.size) as server:
        scene = Scene(namespace, server, proxy)
        try:
            _cold(scene, fleet, random.Random(0))
        finally:
            scene.close()


def _checks(kernel: Kernel, expected: Sequence[Expected]) -> list[Callable[[], bool]]:
    return [partial(kernel.knows, each) for each in expected]


def _cold(scene: Scene, fleet: Fleet, rng: random.Random) -> dict[str, float]:
    size, kernel = fleet.size, scene.kernel
    chosen = {0, size.services - 1, *(rng.randrange(size.services) for _ in range(SAMPLE))}
    expected = [
        Expected(index, size.endpoints, frozenset(fleet.endpoints(index)), frozenset())
        for index in sorted(chosen)
    ]

    def is_full() -> bool:
        endpoints = kernel.count(ENDPOINTS)  # upstream has no such map
        return kernel.frontends() in {size.services, UNKNOWN} and endpoints in {
            None,
            size.total,
            UNKNOWN,
        }

    checks = [is_full, *_checks(kernel, expected)]
    done = scene.wait(checks, scene.since, COARSE)
    scene.running.wait_settled(QUIET)
    memory = scene.running.memory()
    return {
        "cold": done.at - scene.running.started,
        "cold_cpu": scene.running.cpu(),
        "cold_transactions": done.transactions,
        "resident": memory.resident,
        "proportional": memory.proportional,
        "cold_peak": memory.peak,
    }


def _rest(scene: Scene, seconds: float) -> dict[str, float]:
    before, began = scene.running.cpu(), time.monotonic()
    time.sleep(seconds)
    used = scene.running.cpu() - before
    return {"rest_cpu": 100 * used / (time.monotonic() - began)}


def _changes(scene: Scene, fleet: Fleet, rng: random.Random, effort: Effort) -> dict[str, float]:
    before = scene.running.cpu()
    times = [_one(scene, fleet, rng).seconds for _ in range(effort.changes)]
    scene.running.wait_settled(QUIET)
    used = scene.running.cpu() - before
    return {
        "change_p50": quantile(times, 50) * 1000,
        "change_p99": quantile(times, 99) * 1000,
        "change_max": max(times) * 1000,
        "change_cpu": used / effort.changes * 1000,
        "change_bytes": _counted(scene, fleet, rng, effort.counted),
    }


class _Took(msgspec.Struct, frozen=True):
    seconds: float
    """From when one change was handed to the socket until the kernel had it."""
    at: float


def _resizes(scene: Scene, fleet: Fleet, rng: random.Random, effort: Effort) -> dict[str, float]:
    """One endpoint less, then one more, of the same service; the first two are not counted."""
    times = []
    for _ in range(effort.changes // 2 + 1):
        service = rng.randrange(fleet.size.services)
        times += [_took(scene, plan(service)).seconds for plan in (fleet.less, fleet.more)]
    return {
        "resize_p50": quantile(times[2:], 50) * 1000,
        "resize_p99": quantile(times[2:], 99) * 1000,
    }


def _one(scene: Scene, fleet: Fleet, rng: random.Random) -> _Took:
    return _took(scene, fleet.one(rng.randrange(fleet.size.services)))


def _took(scene: Scene, plan: Plan) -> _Took:
    scene.server.prepare(plan)
    time.sleep(PAUSE)
    since = scene.kernel.generation()
    scene.server.begin_sending()
    checks = _checks(scene.kernel, plan.expected)
    done = scene.wait(checks, since, FINE)
    return _Took(done.at - scene.server.sent().first, done.at)


def _counted(scene: Scene, fleet: Fleet, rng: random.Random, count: int) -> float:
    counts = []
    for _ in range(count):
        listener = Notified(scene.namespace)
        try:
            _one(scene, fleet, rng)
            counts.append(listener.take(timeout=5))
        finally:
            listener.close()
    return quantile(counts, 50)


def _many(scene: Scene, name: str, plan: Plan) -> dict[str, float]:
    scene.server.prepare(plan)
    scene.running.wait_settled(QUIET)
    before, since = scene.running.cpu(), scene.kernel.generation()
    scene.server.begin_sending()
    checks = _checks(scene.kernel, plan.expected)
    done = scene.wait(checks, since, COARSE)
    sent = scene.server.sent()
    scene.running.wait_settled(QUIET)
    return {
        name: done.at - sent.first,
        f"{name}_behind": done.at - sent.last,
        f"{name}_cpu": scene.running.cpu() - before,
        f"{name}_transactions": done.transactions,
        f"{name}_events": len(plan.changes),
    }


def _restart(scene: Scene, fleet: Fleet, rng: random.Random) -> dict[str, float]:
    """Until it is at rest; a change then shows whether it really is."""
    scene.restart()
    scene.server.wait_synced()
    at = scene.running.wait_settled(QUIET)
    transactions, used = scene.kernel.generation() - scene.since, scene.running.cpu()
    took = _one(scene, fleet, rng)
    if took.seconds > QUIET:
        at = took.at
        transactions = scene.kernel.generation() - scene.since - 1
        scene.running.wait_settled(QUIET)
        used = scene.running.cpu()
    scene.stop()
    return {
        "restart": at - scene.running.started,
        "restart_cpu": used,
        "restart_transactions": transactions,
        "after_restart": took.seconds * 1000,
    }
