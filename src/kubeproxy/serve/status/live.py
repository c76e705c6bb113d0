"""The parts of the running daemon that its status shows, and how they are read at one moment."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.source import Gap
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.engine.sync import FamilySync
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.metrics.process import usage
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.state import FamilyState, Process, State

if TYPE_CHECKING:
    from kubeproxy.serve.traffic.traffic import Traffic

AT_ONCE: Final = 4
"""Answers that are made at the same time for clients of ports; other requests wait."""


class Live(msgspec.Struct, frozen=True):
    """The daemon's parts, for reading only, and in the event loop only.

    `traffic` is None where the mode counts no connections. It is read in a thread; one request at
    a time does so, which leaves the other threads to the syncs. `started` is when the process
    began, on the wall clock.
    """

    config: KubeProxyConfiguration
    config_file: str
    source: str
    started: float
    cluster: Cluster
    syncs: Mapping[Family, FamilySync]
    dataplanes: Mapping[Family, Dataplane]
    health: Health
    history: History
    eligible: Callable[[], bool]
    gaps: Callable[[], Sequence[Gap]]
    ignored: Callable[[], Sequence[Problem]]
    remains: Callable[[], Sequence[str]]
    traffic: "Traffic | None"
    one_reader: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    a_few: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    async def counted(self) -> State:
        """The daemon now, with the connections of its services."""
        if self.traffic is None:
            return self.state()
        async with self.one_reader:
            looks = await asyncio.to_thread(self.traffic.looks)
        state = self.state()
        families = {
            family: msgspec.structs.replace(each, look=looks.get(family))
            for family, each in state.families.items()
        }
        return msgspec.structs.replace(state, families=families)

    def state(self) -> State:
        """The daemon now, without connections."""
        return State(
            config=self.config,
            now=time.time(),
            cluster=self.cluster,
            families={family: self._family(family) for family in self.syncs},
            counts_connections=self.traffic is not None,
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
            dataplane=self.dataplanes[family],
        )

    def process(self) -> Process:
        """The process now."""
        used = usage()
        return Process(
            pid=os.getpid(),
            started=self.started,
            cpu_seconds=used.cpu,
            memory_bytes=used.resident,
            source=self.source,
            config_file=self.config_file,
            healthy=self.health.healthy,
            eligible=self.eligible(),
            gaps=self.gaps(),
            ignored=self.ignored(),
            remains=self.remains(),
        )
