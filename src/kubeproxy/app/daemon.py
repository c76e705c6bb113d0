"""The daemon: builds the parts, wires them, and runs the task tree. Knows all other modules.

It ends when it is cancelled (by a signal) or with an exception that says why: a failing sync or an
API server that is gone are no reason.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from kubeproxy.app.metrics import count_traffic, health_families, registry_of
from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.source import EventSource
from kubeproxy.config.errors import Level, Notice
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS, Gates
from kubeproxy.config.nodeports import expand
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.leftovers import DEVICE
from kubeproxy.engine.flow_cleaner import StaleFlows
from kubeproxy.engine.handler import EventHandler
from kubeproxy.engine.node import Surroundings, node_ips, node_view
from kubeproxy.engine.node_checks import start_notices
from kubeproxy.engine.observer import Observation, Observer, SyncEnded
from kubeproxy.engine.own_node import OwnNode, RestartNeeded
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.sync import FamilySync, SyncInput, SyncTarget
from kubeproxy.linux.descriptors import allow_many
from kubeproxy.linux.filewatch import wait_content_changed
from kubeproxy.linux.links import interface_addresses, watch_addresses
from kubeproxy.serve.events.event import (
    Event,
    Subject,
    health_server_failed,
    metrics_server_failed,
    service_health_port_failed,
    starting,
)
from kubeproxy.serve.events.recorder import Recorder
from kubeproxy.serve.health.ports import HealthChecks, check_addresses
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.metrics.families import MetricFamily
from kubeproxy.serve.metrics.process import start_time
from kubeproxy.serve.metrics.proxy import ProxyMetrics
from kubeproxy.serve.routes import RunFacts, routes, serve_health, serve_metrics, serve_socket
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.table.compile import Vantage
from kubeproxy.table.entries import Balance, ServiceName
from kubeproxy.table.node import Mode, Node

FULL_SYNC_PERIOD = 3600.0
SERVICE_CIDR_WAIT = 1.0


class _Initialised(Exception):
    """What --init-only asks for is done."""


class Setup(msgspec.Struct, frozen=True):
    """All that a run depends on.

    `waits_for_node` is False where no Node will be added while we wait, as with manifests.
    `config_file` and its content are watched; "" when there is none. `prepare` is called once, in
    a thread, before the first sync; `remove_other_modes` when every family is programmed: it says
    why something of them remains.
    `serves` is False where no port is to be taken, as in a dry run. `flags` are all flags as text,
    `metrics` families that others keep, and `source_name` is for people.
    """

    config: KubeProxyConfiguration
    gates: Gates
    node_name: str
    source: EventSource
    families: tuple[Family, ...]
    dataplane: Callable[[Family], Dataplane]
    cleans_flows: bool = True
    waits_for_node: bool = True
    config_file: str = ""
    config_content: bytes = b""
    init_only: bool = False
    serves: bool = True
    flags: Mapping[str, str] = {}
    metrics: tuple[MetricFamily, ...] = ()
    source_name: str = ""
    prepare: Callable[[Mapping[Family, Node]], None] | None = None
    remove_other_modes: Callable[[], tuple[str, ...]] | None = None
    recorder: Recorder = msgspec.field(default_factory=lambda: Recorder(""))


def log_notice(notice: Notice) -> None:
    """Put a notice of the configuration into the log."""
    say: Mapping[Level, Callable[..., None]] = {
        Level.INFO: klog.info,
        Level.WARNING: klog.warning,
        Level.ERROR: klog.error,
    }
    say[notice.level](notice.message, **notice.pairs)


class Daemon:
    """One run of the proxy."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._cluster = Cluster(
            setup.node_name,
            allow_external_ips=setup.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS),
        )
        self._node = OwnNode(self._cluster, setup.config, awaited=setup.waits_for_node)
        self._programmed = asyncio.Event()
        self._remains: tuple[str, ...] = ()
        self._addresses: dict[Family, tuple[str, ...]] = {}
        # The addresses of ipvs mode's device are those of services, not of this node.
        self._besides = DEVICE if Mode(setup.config.mode) is Mode.IPVS else ""
        self._dataplanes: dict[Family, Dataplane] = {}
        self._flows: list[StaleFlows] = []
        self.health = Health(2 * setup.config.sync_period.seconds, self._is_eligible)
        self._health_checks = HealthChecks(
            self._is_healthy, self._check_addresses, self._health_check_refused
        )
        proxy = ProxyMetrics(Mode(setup.config.mode), setup.families, time.time)
        self._history = History(time.time)
        self._observers: list[Observer] = [
            self._note_first_syncs,
            self.health.observe,
            self._health_checks.observe,
            proxy.observe,
            self._history.observe,
        ]
        self.syncs: Mapping[Family, FamilySync] = {
            family: self._family_sync(family) for family in setup.families
        }
        self._started = start_time()
        self.registry = registry_of(setup.config, setup.gates, self._dataplanes, self._started)
        self.registry.add(
            *proxy.families(), *setup.metrics, *health_families(self.health.answered)
        )
        self.traffic = count_traffic(setup.config, self._dataplanes, self.registry)
        self._handler = EventHandler(
            self._cluster, tuple(self.syncs.values()), self._node.changed, self._notify
        )
        facts = RunFacts(setup.config, setup.gates, setup.flags, self._started)
        live = Live(self._state, self.traffic)
        self.routes = routes(facts, self.registry, self.health, live)

    def _notify(self, observation: Observation) -> None:
        for observer in self._observers:
            observer(observation)

    def _state(self) -> State:
        """The daemon now, for its status."""
        setup = self._setup
        return State(
            config=setup.config,
            config_file=setup.config_file,
            source=setup.source_name,
            started=self._started,
            now=time.time(),
            cluster=self._cluster,
            families={family: self._family_state(family) for family in self.syncs},
            counts_connections=self.traffic is not None,
            healthy=self.health.healthy,
            eligible=self._is_eligible(),
            gaps=setup.source.gaps(),
            ignored=self._ignored(),
            remains=self._remains,
        )

    def _family_state(self, family: Family) -> FamilyState:
        sync = self.syncs[family]
        return FamilyState(
            family=family,
            builder=sync.builder,
            node=sync.node,
            failed=sync.failed,
            failure=sync.failure,
            healthy=self.health.keeps_up(family),
            waiting=self.health.waiting(family),
            history=self._history.of(family),
            dataplane=self._dataplanes[family],
        )

    def _ignored(self) -> list[Problem]:
        """The parts of objects that are not valid, of both families."""
        unfit = (problem for sync in self.syncs.values() for problem in sync.problems)
        return [*self._handler.problems, *dict.fromkeys(unfit)]

    async def run(self) -> None:
        """Run until cancelled, or until something calls for a restart."""
        allow_many()
        setup = self._setup
        try:
            async with asyncio.TaskGroup() as tasks:
                following = setup.source.run(self._handler.deliver)
                tasks.create_task(following, name="source")
                if setup.config_file:
                    tasks.create_task(self._watch_config(), name="config file")
                if setup.serves and not setup.init_only and setup.config.status_socket:
                    # From the start: it says why the proxy waits for an API server.
                    answering = serve_socket(self.routes, setup.config.status_socket)
                    tasks.create_task(answering, name="status socket")
                changes = watch_addresses(self._addresses_changed, self._besides)
                tasks.create_task(changes, name="addresses")
                await self._wait_surroundings()
                await self._prepare()
                if setup.init_only:
                    raise _Initialised  # noqa: TRY301  # the way to end a task group
                tasks.create_task(setup.recorder.run(), name="events")
                if setup.serves:
                    self._serve_health(tasks)
                    metrics = serve_metrics(self.routes, setup.config)
                    serving = self._or_report(metrics, metrics_server_failed)
                    tasks.create_task(serving, name="metrics")
                for family, sync in self.syncs.items():
                    tasks.create_task(sync.run(), name=f"sync {family.value}")
                    dataplane = self._dataplanes[family]
                    tasks.create_task(
                        dataplane.watch(sync.invalidate), name=f"watch {family.value}"
                    )
                for flows in self._flows:
                    tasks.create_task(flows.run(), name="stale flows")
                tasks.create_task(self._after_first_sync(), name="after the first sync")
                self._handler.ready()
                setup.recorder.record(starting(setup.node_name, setup.config.mode))
        except* _Initialised:
            klog.info("System initialized and --init-only specified")
        except* KubeProxyError as group:
            raise _first(group) from None
        finally:
            self.registry.close()
            for dataplane in self._dataplanes.values():
                await dataplane.close()

    async def _prepare(self) -> None:
        if self._setup.prepare is not None:
            nodes = {family: self._sync_input(family).node for family in self.syncs}
            await asyncio.to_thread(self._setup.prepare, nodes)

    def _serve_health(self, tasks: asyncio.TaskGroup) -> None:
        config = self._setup.config
        if config.healthz_bind_address:
            serving = serve_health(self.routes, config)
            tasks.create_task(self._or_report(serving, health_server_failed), name="health")
        tasks.create_task(self._health_checks.run(), name="health-check ports")

    async def _or_report(
        self, serving: Awaitable[None], failed: Callable[[str, ListenError], Event]
    ) -> None:
        """Serve; when a port in use ends the process, an event says so first."""
        try:
            await serving
        except ListenError as error:
            await self._setup.recorder.record_last(failed(self._setup.node_name, error))
            raise

    def _is_eligible(self) -> bool:
        node = self._cluster.node
        return node is not None and node.eligible

    def _is_healthy(self) -> bool:
        """What health-check ports say of this proxy; without a health port, it is healthy."""
        return not self._setup.config.healthz_bind_address or self.health.healthy

    def _check_addresses(self, family: Family) -> tuple[str, ...]:
        config = self._setup.config
        ips = node_ips(self._cluster.node, config.bind_address).ips
        ranges = expand(config.node_port_addresses, ips)
        return check_addresses(family, ranges, self._own_addresses(family))

    def _health_check_refused(self, service: ServiceName, port: int, error: ListenError) -> None:
        node = self._setup.node_name
        name = str(service)
        klog.error("Failed to start healthcheck", err=error, node=node, service=name, port=port)
        subject = Subject("Service", service.service, service.namespace)
        self._setup.recorder.record(service_health_port_failed(node, subject, port, error))

    def _note_first_syncs(self, observation: Observation) -> None:
        if isinstance(observation, SyncEnded) and observation.full:
            syncs = self.syncs.values()
            if all(sync.progress.full_ended is not None for sync in syncs):
                self._programmed.set()

    async def _after_first_sync(self) -> None:
        await self._programmed.wait()
        gc.freeze()  # a large cluster stays: looking for garbage in it would hold up syncs
        if self._setup.remove_other_modes is not None:
            self._remains = await asyncio.to_thread(self._setup.remove_other_modes)

    def _family_sync(self, family: Family) -> FamilySync:
        config = self._setup.config
        mode = Mode(config.mode)
        retry = config.sync_period.seconds
        schedule = Schedule(
            min_period=config.min_sync_period.seconds,
            retry_period=retry,
            full_period=retry if mode is Mode.IPVS else FULL_SYNC_PERIOD,
        )
        dataplane = self._dataplanes[family] = self._setup.dataplane(family)
        flows = StaleFlows(family, self._notify) if self._setup.cleans_flows else None
        if flows is not None:
            self._flows.append(flows)
        return FamilySync(
            self._cluster,
            family,
            SyncTarget(dataplane, flows, self._notify),
            schedule,
            lambda: self._sync_input(family),
        )

    def _sync_input(self, family: Family) -> SyncInput:
        """This node as it is now."""
        ips = node_ips(self._cluster.node, self._setup.config.bind_address)
        around = Surroundings(
            node=self._cluster.node,
            ips=ips,
            addresses=self._own_addresses(family),
            service_cidrs=self._cluster.service_cidrs(family),
        )
        node = node_view(self._setup.config, self._setup.gates, family, around)
        balance = Balance(self._setup.config.nftables.balance)
        return SyncInput(node, Vantage(self._cluster.place, ips.known_ip(family), balance))

    def _own_addresses(self, family: Family) -> tuple[str, ...]:
        if family not in self._addresses:
            self._addresses[family] = interface_addresses(family, self._besides)
        return self._addresses[family]

    def _addresses_changed(self) -> None:
        self._addresses.clear()
        for sync in self.syncs.values():
            sync.request()

    async def _watch_config(self) -> None:
        await wait_content_changed(self._setup.config_file, self._setup.config_content)
        raise RestartNeeded("content of the proxy server's configuration file was updated")

    async def _wait_surroundings(self) -> None:
        """Wait until this node is known well enough, and say what does not fit it."""
        await self._node.wait_known()
        setup = self._setup
        notices = start_notices(setup.config, setup.gates, setup.families, self._cluster.node)
        for notice in notices:
            log_notice(notice)
        # Without the service ranges the first sync would remove them; but older API servers have
        # none.
        ranges_known = partial(self._cluster.synced, Kind.SERVICE_CIDR)
        if not await self._node.wait_until(ranges_known, SERVICE_CIDR_WAIT):
            klog.info("ServiceCIDRs are not known yet, going on without", v=2)


def _first(group: BaseExceptionGroup[KubeProxyError]) -> KubeProxyError:
    """The first exception of a group, however deep."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
