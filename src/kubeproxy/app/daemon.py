"""The daemon: runs its parts as one tree of tasks, in order.

It ends when it is cancelled, as by a signal, or with an exception that says why. A sync that fails
or an API server that is unreachable does not end it.
"""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from kubeproxy.app.wiring import Parts, Setup, make_parts
from kubeproxy.base import klog
from kubeproxy.base.errors import KubeProxyError
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.config.errors import Level, Notice
from kubeproxy.engine.node_checks import start_notices
from kubeproxy.engine.observer import Observation, SyncEnded
from kubeproxy.engine.own_node import RestartNeeded
from kubeproxy.linux.descriptors import allow_many
from kubeproxy.linux.filewatch import wait_content_changed
from kubeproxy.linux.links import watch_addresses
from kubeproxy.serve.events.event import (
    Event,
    health_server_failed,
    metrics_server_failed,
    starting,
)
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.metrics.process import start_time
from kubeproxy.serve.routes import serve_health, serve_metrics, serve_socket

SERVICE_CIDR_WAIT = 1.0


class _Initialised(Exception):
    """What --init-only asks for is done."""


def log_notice(notice: Notice) -> None:
    """Log a notice about the configuration."""
    log: Mapping[Level, Callable[..., None]] = {
        Level.INFO: klog.info,
        Level.WARNING: klog.warning,
        Level.ERROR: klog.error,
    }
    log[notice.level](notice.message, **notice.pairs)


class Daemon:
    """One run of the proxy."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.parts: Parts = make_parts(setup)
        self._programmed = asyncio.Event()
        self.parts.observers.append(self._note_first_syncs)

    async def run(self) -> None:
        """Run until cancelled, or until something calls for a restart."""
        allow_many()
        setup, parts = self._setup, self.parts
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(setup.source.run(parts.handler.deliver), name="source")
                if setup.config_file:
                    tasks.create_task(self._watch_config(), name="config file")
                if setup.serves and not setup.init_only and setup.config.status_socket:
                    # From the start: it shows why the daemon waits for an API server.
                    answering = serve_socket(parts.routes, setup.config.status_socket)
                    tasks.create_task(answering, name="status socket")
                changes = watch_addresses(self._addresses_changed, parts.node.device)
                tasks.create_task(changes, name="addresses")
                await self._wait_node()
                await self._prepare()
                if setup.init_only:
                    raise _Initialised  # noqa: TRY301  # the way to end a task group
                tasks.create_task(setup.recorder.run(), name="events")
                if setup.serves:
                    self._serve_health(tasks)
                    metrics = serve_metrics(parts.routes, setup.config)
                    serving = self._or_report(metrics, metrics_server_failed)
                    tasks.create_task(serving, name="metrics")
                self._sync(tasks)
                tasks.create_task(parts.conntrack.run(), name="connection tracking")
                for flows in parts.flows.values():
                    tasks.create_task(flows.run(), name="stale flows")
                tasks.create_task(self._after_first_sync(), name="after the first sync")
                parts.handler.ready()
                setup.recorder.record(starting(setup.node_name, setup.config.mode))
        except* _Initialised:
            klog.info("System initialized and --init-only specified")
        except* KubeProxyError as group:
            raise _first(group) from None
        finally:
            parts.registry.close()
            for dataplane in parts.dataplanes.values():
                await dataplane.close()

    async def _watch_config(self) -> None:
        await wait_content_changed(self._setup.config_file, self._setup.config_content)
        raise RestartNeeded("content of the proxy server's configuration file was updated")

    def _addresses_changed(self) -> None:
        self.parts.node.addresses_changed()
        for sync in self.parts.syncs.values():
            sync.request()

    async def _wait_node(self) -> None:
        """Wait until this node is known well enough, and log what does not fit it."""
        setup, cluster, node = self._setup, self.parts.cluster, self.parts.node
        await node.wait_known()
        for notice in start_notices(setup.config, setup.gates, setup.families, cluster.node):
            log_notice(notice)
        # Without the service ranges the first sync would remove them; but older API servers
        # have none.
        ranges_known = partial(cluster.synced, Kind.SERVICE_CIDR)
        if not await node.wait_until(ranges_known, SERVICE_CIDR_WAIT):
            klog.info("ServiceCIDRs are not known yet, going on without", v=2)

    async def _prepare(self) -> None:
        if self._setup.prepare is not None:
            nodes = {family: self.parts.node.view(family) for family in self.parts.syncs}
            await asyncio.to_thread(self._setup.prepare, nodes)

    def _sync(self, tasks: asyncio.TaskGroup) -> None:
        parts = self.parts
        for family, sync in parts.syncs.items():
            tasks.create_task(sync.run(), name=f"sync {family.value}")
            watching = parts.dataplanes[family].watch(sync.invalidate)
            tasks.create_task(watching, name=f"watch {family.value}")
        if parts.fast_path is not None:
            tasks.create_task(parts.fast_path.run(), name="fast path")
        for family, healer in parts.healers.items():
            tasks.create_task(healer.run(), name=f"healing {family.value}")

    def _serve_health(self, tasks: asyncio.TaskGroup) -> None:
        config = self._setup.config
        if config.healthz_bind_address:
            serving = serve_health(self.parts.routes, config)
            tasks.create_task(self._or_report(serving, health_server_failed), name="health")
        tasks.create_task(self.parts.health_checks.run(), name="health-check ports")

    async def _or_report(
        self, serving: Awaitable[None], failed: Callable[[str, ListenError], Event]
    ) -> None:
        """Serve; where a port in use ends the daemon, record an event first."""
        try:
            await serving
        except ListenError as error:
            await self._setup.recorder.record_last(failed(self._setup.node_name, error))
            raise

    def _note_first_syncs(self, observation: Observation) -> None:
        if isinstance(observation, SyncEnded) and observation.full:
            syncs = self.parts.syncs.values()
            if all(sync.progress.full_ended is not None for sync in syncs):
                self._programmed.set()

    def _log_programmed(self) -> None:
        """Say how much is programmed, and how long that took from the start of the process."""
        syncs = self.parts.syncs.values()
        entries = [entry for sync in syncs for entry in sync.builder.table.entries.values()]
        klog.info(
            "Programmed all services" if self._setup.serves else "Compiled all services",
            seconds=round(time.time() - start_time(), 3),
            ipFamilies=[sync.family.value for sync in syncs],
            services=len({entry.name.owner for entry in entries}),
            frontends=sum(len(entry.frontends) for entry in entries),
            endpoints=sum(entry.endpoints for entry in entries),
            failed=sum(len(sync.failed) for sync in syncs),
        )

    async def _after_first_sync(self) -> None:
        await self._programmed.wait()
        self._log_programmed()
        gc.freeze()  # a large cluster stays: looking for garbage in it would delay syncs
        if self._setup.remove_other_modes is not None:
            self.parts.remains.extend(await asyncio.to_thread(self._setup.remove_other_modes))


def _first(group: BaseExceptionGroup[KubeProxyError]) -> KubeProxyError:
    """The first exception of a group, however deep."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
