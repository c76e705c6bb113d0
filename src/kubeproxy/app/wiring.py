"""Composes the daemon: command line -> `Setup` -> `Parts`, each part made once and connected."""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, join
from kubeproxy.cluster.client.observed import Observe
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.source import EventSource
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Parsed, rendered
from kubeproxy.config.gates import ALLOW_SERVICE_EXTERNAL_IPS, Gates
from kubeproxy.config.load import Loaded, node_name
from kubeproxy.config.nodeports import expand
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.cleanup import remove_other_modes
from kubeproxy.dataplane.contract import Dataplane, FastPath, Heals, Offloads
from kubeproxy.dataplane.dryrun import DryRun
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.activity import log_activity
from kubeproxy.engine.apply_settings import prepare_machine
from kubeproxy.engine.conntrack_watch import ConntrackWatch
from kubeproxy.engine.ejection import Ejection, Limits
from kubeproxy.engine.flow_cleaner import StaleFlows
from kubeproxy.engine.handler import EventHandler
from kubeproxy.engine.healer import Healer
from kubeproxy.engine.node import node_ips
from kubeproxy.engine.observer import EndpointEjected, Observation, Observer
from kubeproxy.engine.own_node import OwnNode
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.linux.forwarding import forwards
from kubeproxy.linux.machine import supported_families
from kubeproxy.serve.events.event import (
    Subject,
    endpoint_ejected,
    service_health_port_failed,
)
from kubeproxy.serve.events.recorder import Recorder
from kubeproxy.serve.health.ports import HealthChecks, check_addresses
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.metrics.client import ClientMetrics
from kubeproxy.serve.metrics.families import MetricFamily
from kubeproxy.serve.metrics.node import (
    claim_families,
    conntrack_families,
    foreign_family,
    node_families,
    source_family,
)
from kubeproxy.serve.metrics.process import start_time
from kubeproxy.serve.metrics.proxy import ProxyMetrics
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.metrics.run import (
    count_traffic,
    health_families,
    make_registry,
    record_failures,
    watch_fast_path,
)
from kubeproxy.serve.routes import HttpRoute, RunFacts, routes
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.table.entries import ServiceName, ServicePortName
from kubeproxy.table.node import NodeView

if TYPE_CHECKING:
    from kubeproxy.serve.healing.record import LeftOut
    from kubeproxy.serve.traffic.traffic import Traffic


class Setup(msgspec.Struct, frozen=True):
    """All that a run depends on.

    `waits_for_node` is False where nothing creates our Node while we wait, as with manifests.
    `config_file` and its content are watched; "" when there is none. `prepare` is called once, in
    a thread, before the first sync; `remove_other_modes` when every family is programmed: it
    returns why leftovers remain.
    `serves` is False where no port is opened, as in a dry run. `flags` are all flags as text,
    `metrics` further families, and `source_name` is for people.
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
    prepare: Callable[[Mapping[Family, NodeView]], None] | None = None
    remove_other_modes: Callable[[], tuple[str, ...]] | None = None
    recorder: Recorder = msgspec.field(default_factory=lambda: Recorder(""))


# --- the command line -> what a run depends on --------------------------------------------------


def setup_of(parsed: Parsed, loaded: Loaded, content: bytes) -> Setup:
    """What the flags and the configuration ask for; `content` is that of the config file."""
    config = loaded.config
    host = socket.gethostname()
    name = node_name(config, host)
    mode = load_mode(config.mode)
    dry_run = parsed.value("dry-run", bool)
    writes = not dry_run and mode.writes_kernel()
    init_only = parsed.value("init-only", bool)
    client = ClientMetrics()
    source, source_name = _source(parsed, loaded, name, client.take)
    return Setup(
        config=config,
        gates=loaded.gates,
        node_name=name,
        source=source,
        families=supported_families() if dry_run else _families(mode),
        dataplane=(lambda _: DryRun(mode)) if dry_run else mode.open(config),
        cleans_flows=writes,
        waits_for_node=not parsed.value("manifests", tuple),
        config_file=parsed.value("config", str),
        config_content=content,
        init_only=init_only,
        serves=not dry_run,
        flags=rendered(FLAGS, parsed),
        metrics=tuple(client.families()),
        source_name=source_name,
        prepare=partial(prepare_machine, config, mode, init_only=init_only) if writes else None,
        # New rules first, then the old ones away: no connection finds neither.
        remove_other_modes=partial(remove_other_modes, mode) if writes else None,
        recorder=Recorder(host, None if dry_run else source.write),
    )


def _families(mode: Mode) -> tuple[Family, ...]:
    """The families for which this machine has what the mode needs.

    Where that is none, the error says why.
    """
    families = supported_families()
    if not mode.uses_iptables:
        return families
    from kubeproxy.dataplane.xtables_kind import use_kind_of_node  # noqa: PLC0415
    from kubeproxy.linux.xtables import Xtables  # noqa: PLC0415  # not of every mode

    if kind := use_kind_of_node():
        klog.info("The iptables programs are of the kind that the node uses", kind=kind)
    failures: dict[Family, KernelError] = {}
    for family in families:
        try:
            Xtables(family).check()
        except KernelError as error:
            klog.error("The IP family is not served", err=error, ipFamily=family.value)
            failures[family] = error
    usable = tuple(family for family in families if family not in failures)
    if not usable:
        raise failures[families[0]]
    return usable


def _source(
    parsed: Parsed, loaded: Loaded, name: str, observe: Observe
) -> tuple[EventSource, str]:
    """Manifests when they are given, else the API server; and its name for people."""
    manifests = parsed.value("manifests", tuple)
    if manifests:
        from kubeproxy.cluster.manifests.source import Manifests  # noqa: PLC0415  # either or

        return Manifests(manifests, name), f"manifests in {', '.join(manifests)}"
    from kubeproxy.cluster.client.contenttypes import accepts  # noqa: PLC0415
    from kubeproxy.cluster.client.http_client import RateLimit  # noqa: PLC0415
    from kubeproxy.cluster.client.kubeconfig import find_access  # noqa: PLC0415
    from kubeproxy.cluster.watch import apiserver  # noqa: PLC0415  # costly to import

    client = loaded.config.client_connection
    access = find_access(client.kubeconfig, parsed.value("master", str), os.environ)
    settings = apiserver.WatchSettings(
        node_name=name,
        watch_list=loaded.gates.enabled("WatchListClient"),
        rate_limit=RateLimit(client.qps, client.burst),
        accepts=accepts(client.content_type, client.accept_content_types),
    )
    source = apiserver.ApiServer(access, settings, observe=observe)
    return source, f"API server {access.server}"


# --- what a run depends on -> the parts of the daemon -------------------------------------------


class Parts(msgspec.Struct, frozen=True):
    """The parts of the daemon. `remains` has why leftovers of other modes remain."""

    cluster: Cluster
    node: OwnNode
    dataplanes: Mapping[Family, Dataplane]
    flows: Mapping[Family, StaleFlows]
    syncs: Mapping[Family, FamilySync]
    healers: Mapping[Family, Healer]
    fast_path: FastPath | None
    handler: EventHandler
    health: Health
    health_checks: HealthChecks
    registry: Registry
    routes: tuple[HttpRoute, ...]
    traffic: "Traffic | None"
    conntrack: ConntrackWatch
    observers: list[Observer]
    remains: list[str]


def make_parts(setup: Setup) -> Parts:
    """Make the parts, and connect them."""
    config, families = setup.config, setup.families
    mode = load_mode(config.mode)
    observers: list[Observer] = []

    def notify(observation: Observation) -> None:
        for observer in observers:
            observer(observation)

    # From the cluster to the kernel.
    externals = setup.gates.enabled(ALLOW_SERVICE_EXTERNAL_IPS)
    cluster = Cluster(setup.node_name, allow_external_ips=externals)
    node = OwnNode(cluster, config, setup.gates, mode.device, awaited=setup.waits_for_node)
    dataplanes = {family: setup.dataplane(family) for family in families}
    flows = {family: StaleFlows(family, notify) for family in families if setup.cleans_flows}
    syncs = {
        family: FamilySync(
            cluster,
            family,
            SyncTarget(dataplanes[family], flows.get(family), notify),
            _schedule(config, mode),
            partial(node.view, family),
        )
        for family in families
    }
    healers = {
        family: Healer(dataplane, sync.builder, _ejection_limits(config), sync.touch, notify)
        for family, sync in syncs.items()
        if isinstance(dataplane := dataplanes[family], Heals)
    }
    of_all = (plane.fast_path for plane in dataplanes.values() if isinstance(plane, Offloads))
    fast_path = next(of_all, None)
    handler = EventHandler(cluster, tuple(syncs.values()), node.changed, notify)

    # What the daemon shows.
    health = Health(2 * config.sync_period.seconds, node.is_eligible)
    health_checks = HealthChecks(
        # Where no health is served, health-check ports count it as good.
        lambda: not config.healthz_bind_address or health.healthy,
        partial(_check_addresses, config, node),
        partial(_report_port, setup),
    )
    conntrack = ConntrackWatch()
    surroundings = partial(_surroundings, setup, node, conntrack, syncs)
    proxy = ProxyMetrics(mode, families, time.time)
    history = History(time.time)
    observers += (health.observe, health_checks.observe, proxy.observe, history.observe)
    observers.append(log_activity)
    facts = RunFacts(config, setup.gates, setup.flags, start_time(), setup.node_name)
    registry = make_registry(setup.gates, facts.started, mode, dataplanes)
    registry.add(*proxy.families(), *setup.metrics, *health_families(health.answered))
    registry.add(
        *conntrack_families(conntrack.use),
        *node_families(families, surroundings),
        source_family(setup.source.silence, time.time),
        foreign_family({family: sync.foreign_changes.programs for family, sync in syncs.items()}),
        *claim_families(
            lambda: ((each, sync.builder.count_conflicts()) for each, sync in syncs.items()),
            lambda: len(_ignored(cluster, syncs)),
        ),
    )
    watch_fast_path(fast_path, registry)
    traffic = count_traffic(config, mode, dataplanes, registry)

    def left_out() -> "Mapping[Family, LeftOut]":
        return {family: _left_out(healers.get(family), sync) for family, sync in syncs.items()}

    record = record_failures(config, mode, time.time, left_out, registry)
    if record is not None:
        observers += (record.observe, partial(_report_ejection, setup))
    remains: list[str] = []

    def family_state(family: Family, sync: FamilySync) -> FamilyState:
        return FamilyState(
            family=family,
            builder=sync.builder,
            node=sync.node,
            failed=sync.failed,
            failure=sync.failure,
            healthy=health.keeps_up(family),
            waiting=health.waiting(family),
            history=history.of(family),
            dataplane=dataplanes[family],
            left_out=_left_out(healers.get(family), sync),
            foreign_changes=sync.foreign_changes.of_late(),
        )

    def state() -> State:
        return State(
            config=config,
            mode=mode,
            config_file=setup.config_file,
            source=setup.source_name,
            started=facts.started,
            now=time.time(),
            cluster=cluster,
            families={family: family_state(family, sync) for family, sync in syncs.items()},
            counts_connections=traffic is not None,
            healthy=health.healthy,
            eligible=node.is_eligible(),
            gaps=setup.source.gaps(),
            ignored=_ignored(cluster, syncs),
            remains=remains,
            record=record,
            surroundings=surroundings(),
            fast_path=None if fast_path is None else fast_path.state,
        )

    paths = routes(facts, registry, health, Live(state, traffic, fast_path))
    return Parts(
        cluster=cluster,
        node=node,
        dataplanes=dataplanes,
        flows=flows,
        syncs=syncs,
        healers=healers,
        fast_path=fast_path,
        handler=handler,
        health=health,
        health_checks=health_checks,
        registry=registry,
        routes=paths,
        traffic=traffic,
        conntrack=conntrack,
        observers=observers,
        remains=remains,
    )


def _schedule(config: KubeProxyConfiguration, mode: Mode) -> Schedule:
    retry = config.sync_period.seconds
    return Schedule(
        min_period=config.min_sync_period.seconds,
        retry_period=retry,
        full_period=retry if mode.full_sync_period is None else mode.full_sync_period,
    )


def _ejection_limits(config: KubeProxyConfiguration) -> Limits:
    healing = config.nftables.healing
    return Limits(
        failures=healing.ejection_failures,
        interval=healing.ejection_interval.seconds,
        seconds=healing.ejection_time.seconds,
        most_seconds=healing.max_ejection_time.seconds,
        percent=healing.max_ejected_percent,
    )


def _left_out(healer: Healer | None, sync: FamilySync) -> "LeftOut":
    """The endpoints that are left out, until when on the wall clock."""
    if healer is None:
        return {}
    from kubeproxy.serve.healing.record import in_force  # noqa: PLC0415  # not of every mode

    ahead = time.time() - asyncio.get_running_loop().time()
    found: dict[ServicePortName, Sequence[Ejection]] = {}
    for name in healer.count():
        entry = sync.builder.table.entries.get(name)
        if entry is not None and (out := in_force(entry, healer.ejections(name))):
            moved = (msgspec.structs.replace(each, until=each.until + ahead) for each in out)
            found[name] = tuple(moved)
    return found


def _check_addresses(
    config: KubeProxyConfiguration, node: OwnNode, family: Family
) -> tuple[str, ...]:
    """Where health-check ports listen."""
    ranges = expand(config.node_port_addresses, node_ips(node.state))
    return check_addresses(family, ranges, node.addresses(family))


def _report_port(setup: Setup, service: ServiceName, port: int, error: ListenError) -> None:
    """Log that a health-check port cannot be opened, and record an event of the Service."""
    node, name = setup.node_name, str(service)
    klog.error("Failed to start healthcheck", err=error, node=node, service=name, port=port)
    subject = Subject("Service", service.service, service.namespace)
    setup.recorder.record(service_health_port_failed(node, subject, port, error))


def _report_ejection(setup: Setup, observation: Observation) -> None:
    """Record an event of the Service when an endpoint of it is left out."""
    if isinstance(observation, EndpointEjected):
        from kubeproxy.explain.words import what_failed  # noqa: PLC0415  # nothing fails mostly

        ejection, name = observation.ejection, observation.ejection.name
        of = f" of port {name.port}" if name.port else ""
        seconds = f"{observation.seconds:.0f} s"
        note = f"{join(*ejection.endpoint)}{of} is left out for {seconds}{what_failed(ejection)}"
        subject = Subject("Service", name.service, name.namespace)
        setup.recorder.record(endpoint_ejected(setup.node_name, subject, note))


def _surroundings(
    setup: Setup, node: OwnNode, conntrack: ConntrackWatch, syncs: Mapping[Family, FamilySync]
) -> Surroundings:
    """What packets need besides rules, now."""
    missing = {family: node.missing_address(family) for family in syncs}
    used = [family for family, sync in syncs.items() if sync.builder.services()]
    return Surroundings(
        conntrack=conntrack.use(),
        lost=conntrack.lost,
        not_forwarded=frozenset(family for family in used if not forwards(family)),
        missing_addresses={family: address for family, address in missing.items() if address},
        no_node=node.is_unknown(),
        silence=setup.source.silence(),
        waiting=node.waiting(),
    )


def _ignored(cluster: Cluster, syncs: Mapping[Family, FamilySync]) -> list[Problem]:
    """Objects, or parts of them, that are ignored; of both families."""
    invalid = (problem for problems in cluster.problems.values() for problem in problems)
    unfit = (problem for sync in syncs.values() for problem in sync.problems)
    return [*invalid, *dict.fromkeys(unfit)]
