"""One endpoint of a small Service and of large ones: what a change costs, by the Service's size.

From the protobuf of a watch event to the kernel's answer, as the daemon does it, with all that
observes syncs, and what is done beside them for affinity. Figures are processor time, the kernel's
share included. The clusters have one Service each and take turns, change by change, so that all
meet the same machine. Their slices have as many endpoints as that of the small Service, because
that is what a changed slice costs to decode; and once more as many as Kubernetes gives them.

`python -m bench.large` enters namespaces of its own; `--changes N` is how many are measured.
"""

import argparse
import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence

import msgspec

from bench import namespaces
from bench.clusters import (
    MOST_ENDPOINTS,
    NODE,
    POD_RANGE,
    Document,
    Size,
    node_document,
    service_document,
    slice_document,
    slices,
)
from bench.tables import Row, plain
from fakes.apiprotobuf import message
from kubeproxy.app.wiring import Setup, make_parts
from kubeproxy.base.inet import Family
from kubeproxy.cluster.events import Synced, Upsert
from kubeproxy.cluster.manifests.source import Manifests
from kubeproxy.cluster.objects.messages import decode_message
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch.apiserver import BATCH
from kubeproxy.config.flags import parse_flags
from kubeproxy.config.load import load
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.engine.observer import Observation, SyncEnded, SyncStarted
from lab.namespaces import Namespace

SMALL = 30
FORMS = ((SMALL, SMALL), (1_000, SMALL), (10_000, SMALL), (1_000, 100), (10_000, 100))
"""Endpoints of the Service, and of each slice."""
BURST = Size(100, 1_000)
BURSTS = 5
CHANGES = 200
WARM = 10

_ZONES, _NODES = 3, 100
_ALIKE = _ZONES * _NODES
"""Endpoints whose serial numbers differ by so many are on the same node and in the same zone."""
_NEW = 20_000 * _ALIKE
_FLAGS = ("--proxy-mode=nftables", f"--cluster-cidr={POD_RANGE}", "--iptables-min-sync-period=1ns")

Settings = Mapping[str, object]
_AFFINITY = {"sessionAffinity": "ClientIP"}
_LOCAL = {
    "type": "LoadBalancer",
    "externalTrafficPolicy": "Local",
    "healthCheckNodePort": 32_000,
}


class Setting(msgspec.Struct, frozen=True):
    """What Services have beside a cluster IP."""

    name: str
    spec: Settings = {}
    hints: bool = False


SETTINGS = (
    Setting("plain"),
    Setting("affinity", _AFFINITY),
    Setting("policy Local", _LOCAL),
    Setting("topology hints", hints=True),
    Setting("all three", {**_AFFINITY, **_LOCAL}, hints=True),
)


class Daemon:
    """A cluster, the daemon's parts that follow it, and a kernel of its own."""

    def __init__(self, size: Size, setting: Setting, in_a_slice: int = MOST_ENDPOINTS) -> None:
        self.size, self._setting, self._in_a_slice = size, setting, in_a_slice
        self._serials = [list(size.serials(index)) for index in range(size.services)]
        self._new = _NEW
        self.namespace = Namespace(f"bench-{size.services}-{size.endpoints}-{in_a_slice}")
        loaded = load(parse_flags(_FLAGS), MODES)
        config = loaded.config
        mode = load_mode(config.mode)
        with self.namespace.entered():
            setup = Setup(
                config, loaded.gates, NODE, Manifests((), NODE), (Family.IPV4,), mode.open(config)
            )
            self._parts = make_parts(setup)
        dataplane = self._parts.dataplanes[Family.IPV4]
        assert isinstance(dataplane, Nftables)
        self._dataplane = dataplane

    async def fill(self) -> None:
        """Have all objects, and the first sync."""
        deliver = self._parts.handler.deliver
        for kind, document in self._documents():
            deliver(Upsert(kind, decode_message(kind, message(kind.value, document))))
        for kind in Kind:
            deliver(Synced(kind))
        self._parts.handler.ready()
        with self.namespace.entered():
            await self._sync()

    async def take(self, events: Sequence[bytes]) -> None:
        """Decode changed slices, and sync."""
        with self.namespace.entered():
            for event in events:
                self._deliver(event)
            await self._sync()

    async def follow(self, events: Sequence[bytes]) -> None:
        """Take changed slices as a watch delivers them, beside syncs, until all are programmed."""
        last = covered = False
        done = asyncio.Event()

        def observe(seen: Observation) -> None:
            nonlocal covered
            if isinstance(seen, SyncStarted):
                covered = last
            elif isinstance(seen, SyncEnded) and covered:
                done.set()

        self._parts.observers.append(observe)
        with self.namespace.entered():
            sync, pins = self._parts.syncs[Family.IPV4], self._dataplane.pins
            running = [asyncio.create_task(each.run()) for each in (sync, pins)]
            for number, event in enumerate(events, 1):
                self._deliver(event)
                if number % BATCH == 0:
                    await asyncio.sleep(0)
            last = True
            await done.wait()
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        self._parts.observers.remove(observe)

    def _deliver(self, event: bytes) -> None:
        decoded = decode_message(Kind.ENDPOINT_SLICE, event)
        self._parts.handler.deliver(Upsert(Kind.ENDPOINT_SLICE, decoded))

    async def _sync(self) -> None:
        sync = self._parts.syncs[Family.IPV4]
        await sync.sync()
        if sync.failure or sync.failed:
            raise RuntimeError(sync.failure or str(sync.failed))
        await self._dataplane.pins.settle()  # beside the syncs in a daemon, but not for nothing

    async def close(self) -> None:
        """Give everything back."""
        await self._dataplane.close()
        self.namespace.close()

    def replaced(self, service: int = 0, number: int = 0) -> bytes:
        """The first endpoint of a slice, which is on this node or not, gets another address."""
        place = number * self._in_a_slice
        self._new += _ALIKE
        self._serials[service][place] = self._new + self._serials[service][place] % _ALIKE
        return self._slice(service, number)

    def resized(self, service: int = 0) -> bytes:
        """The last endpoint leaves, or there is one more again."""
        serials = self._serials[service]
        if len(serials) == self.size.endpoints:
            serials.pop()
        else:
            self._new += _ALIKE
            serials.append(self._new)
        return self._slice(service, (self.size.endpoints - 1) // self._in_a_slice)

    def _slice(self, service: int, number: int) -> bytes:
        document = self._document(
            service, number, slices(self._serials[service], self._in_a_slice)[number]
        )
        return message(Kind.ENDPOINT_SLICE.value, document)

    def _documents(self) -> Iterator[tuple[Kind, Document]]:
        yield Kind.NODE, node_document()
        for index in range(self.size.services):
            document = service_document(index)
            spec = document["spec"]
            assert isinstance(spec, dict)
            spec |= self._setting.spec
            if "healthCheckNodePort" in spec:
                spec["healthCheckNodePort"] += index
                spec["ports"][0]["nodePort"] = 30_000 + index
                document["status"] = {"loadBalancer": {"ingress": [{"ip": f"11.0.0.{index}"}]}}
            yield Kind.SERVICE, document
            for number, serials in enumerate(slices(self._serials[index], self._in_a_slice)):
                yield Kind.ENDPOINT_SLICE, self._document(index, number, serials)

    def _document(self, service: int, number: int, serials: Sequence[int]) -> Document:
        document = slice_document(service, number, serials)
        endpoints = document["endpoints"]
        assert isinstance(endpoints, list)
        for endpoint in endpoints if self._setting.hints else ():
            endpoint["hints"] = {"forZones": [{"name": endpoint["zone"]}]}
        return document


async def _seconds(work: Awaitable[None]) -> float:
    began = time.process_time()
    await work
    return time.process_time() - began


async def changes(setting: Setting, count: int) -> list[Row]:
    """A row for each kind of change: microseconds by size, and how many times the first."""
    daemons = [Daemon(Size(1, endpoints), setting, most) for endpoints, most in FORMS]
    for daemon in daemons:
        await daemon.fill()
    found = []
    for name, change in (("replaced", Daemon.replaced), ("more or less", Daemon.resized)):
        seconds: list[list[float]] = [[] for _ in daemons]
        for turn in range(count + WARM):
            for daemon, taken in zip(daemons, seconds, strict=True):
                took = await _seconds(daemon.take([change(daemon)]))
                if turn >= WARM:
                    taken.append(took)
        medians = [statistics.median(each) * 1e6 for each in seconds]
        ratios = (f"x {each / medians[0]:.2f}" for each in medians[1:])
        figures = (f"{each:,.0f} us" for each in medians)
        found.append((f"{setting.name}: {name}", *figures, *ratios))
    for daemon in daemons:
        await daemon.close()
    return found


async def burst(setting: Setting) -> Row:
    """A change of every slice of a cluster, as fast as they can be taken."""
    daemon = Daemon(BURST, setting)
    await daemon.fill()
    gc.freeze()  # as the daemon does
    taken = []
    for _ in range(BURSTS):
        numbers = range(BURST.endpoints // MOST_ENDPOINTS)
        events = [daemon.replaced(at, n) for n in numbers for at in range(BURST.services)]
        taken.append(await _seconds(daemon.follow(events)))
    await daemon.close()
    return (f"{setting.name}: {len(events):,} changes in {BURST}", f"{min(taken):.3f} s")


async def main(count: int) -> None:
    """Measure all of it."""
    forms = tuple(f"{endpoints:,} / {most}" for endpoints, most in FORMS)
    head = ("endpoints / of a slice", *forms, *forms[1:])
    found = [row for setting in SETTINGS for row in await changes(setting, count)]
    print(plain([head, *found]))
    bursts = [await burst(setting) for setting in (SETTINGS[0], SETTINGS[-1])]
    print(plain([("", "CPU"), *bursts]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=CHANGES, help="measured of each kind")
    namespaces.enter()
    gc.set_threshold(50_000)  # as the daemon does
    asyncio.run(main(parser.parse_args().changes))
