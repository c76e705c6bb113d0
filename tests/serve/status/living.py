"""The parts of a daemon that people may look at, with a fake kernel and still clocks."""

import itertools
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from fakes.dataplane import FakeDataplane
from fakes.fastpath import FakeFastPath
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Problem
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.source import Gap
from kubeproxy.config.gates import resolve
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import ConnectionCounts, Count
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.observer import Observation
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.serve.healing.record import HealingRecord
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.health.state import Instant
from kubeproxy.serve.http.answer import Page
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.routes import Listeners, RunFacts, router, routes
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.traffic.series import SeriesLimits
from kubeproxy.serve.traffic.traffic import Traffic
from kubeproxy.table.entries import ServicePortName
from world import Document, Mode, cluster_of, node

START = 1_700_000_000.0


class Counter(FakeDataplane):
    """A kernel that counts: the n-th connection of a service port goes to its first frontend."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[ServicePortName, int] = {}

    def connections(self) -> ConnectionCounts:
        return ConnectionCounts(
            1,
            [(name, self._counts(name, self.counted.get(name, 0))) for name in self.entries],
        )

    def _counts(self, name: ServicePortName, value: int) -> Sequence[Count]:
        entry = self.entries[name]
        first, *others = entry.frontends
        return [
            Count(first, first, value),
            *(Count(other, other, 0) for other in others),
            *(Count(backend, backend, value) for backend in entry.cluster[:1]),
        ]


class Rig:
    """A daemon's parts. `sync` programs what the cluster has; `tick` lets time pass."""

    def __init__(
        self,
        *documents: Document,
        mode: Mode = Mode.NFTABLES,
        families: Sequence[Family] = tuple(Family),
        counts: bool = True,
        eligible: bool = True,
        kernel: type[Counter] = Counter,
    ) -> None:
        self.seconds = START
        self.gaps: Sequence[Gap] = ()
        self.ignored: Sequence[Problem] = ()
        self.remains: Sequence[str] = ()
        self.surroundings = Surroundings()
        self.left_out: dict[ServicePortName, Sequence[Ejection]] = {}
        self.record = HealingRecord(
            SeriesLimits(), lambda: self.seconds, lambda: {Family.IPV4: self.left_out}
        )
        self.cluster = cluster_of(*documents)
        self.kernels = {family: kernel() for family in families}
        self.history = History(lambda: self.seconds)
        self.health = Health(60.0, lambda: eligible, lambda: Instant(self.seconds, 0))
        self.syncs = {family: self._sync(family, mode) for family in families}
        clock = itertools.count()
        self.traffic = Traffic(self.kernels, lambda: float(next(clock))) if counts else None
        self.config = KubeProxyConfiguration(
            mode=mode.value, metrics_bind_address="127.0.0.1:10249"
        )
        self._eligible = eligible
        self.fast_path: FakeFastPath | None = None
        self.live = Live(self._state, self.traffic)

    def has_fast_path(self, path: FakeFastPath) -> None:
        """From now on it has this one."""
        self.fast_path = path
        self.live = Live(self._state, self.traffic, path)

    def _state(self) -> State:
        return State(
            config=self.config,
            mode=load_mode(self.config.mode),
            config_file="/etc/kube-proxy.conf",
            source="manifests in /srv",
            started=START,
            now=time.time(),
            cluster=self.cluster,
            families={family: self._family(family) for family in self.syncs},
            counts_connections=self.traffic is not None,
            healthy=self.health.healthy,
            eligible=self._eligible,
            gaps=self.gaps,
            ignored=self.ignored,
            remains=self.remains,
            surroundings=self.surroundings,
            fast_path=self.fast_path.state if self.fast_path else None,
            record=self.record if load_mode(self.config.mode).quirks.heals else None,
        )

    def _family(self, family: Family) -> FamilyState:
        sync = self.syncs[family]
        return FamilyState(
            family=family,
            builder=sync.builder,
            node=sync.node,
            failed=sync.failed,
            failure=sync.failure,
            healthy=self.health.keeps_up(family),
            waiting=self.health.waiting(family),
            history=self.history.of(family),
            dataplane=self.kernels[family],
            left_out=self.left_out if family is Family.IPV4 else {},
            foreign_changes=sync.foreign_changes.of_late(),
        )

    def _sync(self, family: Family, mode: Mode) -> FamilySync:
        return FamilySync(
            self.cluster,
            family,
            SyncTarget(self.kernels[family], notify=self._observe),
            Schedule(0.0, 30.0, 3600.0),
            lambda: replace(node(mode, family), zone=self.cluster.zone),
        )

    def _observe(self, observation: Observation) -> None:
        self.history.observe(observation)
        self.record.observe(observation)
        self.health.observe(observation)

    def put(self, *documents: Mapping[str, object]) -> None:
        """Change the cluster; the next sync programs it."""
        for document in documents:
            kind = Kind.ENDPOINT_SLICE if "addressType" in document else Kind.SERVICE
            touched = self.cluster.upsert(kind, convert(kind, dict(document)))
            for family, key in touched.services:
                if family in self.syncs:
                    self.syncs[family].touch([key])

    def page(self, listener: Listeners = Listeners.METRICS, **settings: str) -> Page:
        """What answers on a listener of a daemon with these settings."""
        facts = RunFacts(replace(self.config, **settings), resolve({})[0], {}, START, "kestrel")
        return router(routes(facts, Registry(), self.health, self.live), listener)

    def observe(self, observation: Observation) -> None:
        """Something else has happened."""
        self.record.observe(observation)

    async def eject(self, ejection: Ejection) -> None:
        """Leave an endpoint out, in IPv4."""
        name, sync = ejection.name, self.syncs[Family.IPV4]
        found = (*self.left_out.get(name, ()), ejection)
        self.left_out[name] = found
        service = ObjectKey(name.namespace, name.service)
        sync.builder.ejected[service] = frozenset(each.endpoint for each in found)
        sync.touch([service])
        await self.sync()

    async def sync(self) -> None:
        """A sync of each family."""
        for each in self.syncs.values():
            await each.sync()


async def programmed(*documents: Document, mode: Mode = Mode.NFTABLES) -> Rig:
    """Parts whose kernels have these documents."""
    rig = Rig(*documents, mode=mode)
    await rig.sync()
    return rig
