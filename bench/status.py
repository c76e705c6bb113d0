"""The status over HTTP: how long each response takes, and what polling costs syncs.

As `bench.traffic`: three addresses for each service, one family, and rounds with and without the
client that take turns. A third argument is a part of the paths that are wanted.

PYTHONPATH=tests python -m lab.enter -- python -m bench.status 8000 30
"""

import asyncio
import gc
import sys
import time

from bench.clusters import Size
from bench.compiled import THIS_NODE
from bench.traffic import Rig, compare
from kubeproxy.base.inet import Family
from kubeproxy.config.gates import resolve
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.observer import Observation
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.sync import FamilySync, SyncTarget
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.listening import listen
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.routes import Listeners, RunFacts, router, routes
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.state import FamilyState, State
from kubeproxy.serve.traffic.traffic import Traffic

PATHS = (
    "/status?format=json",
    "/status/services",
    "/status/services?limit=0",
    "/status/services?sort=rate",
    "/status/services?q=10.128.7.21",
    "/status/services/{namespace}/{name}",
    "/status/rates",
    "/status/explain?to={namespace}/{name}",
    "/status/table?family=IPv4",
    "/status/cluster",
    "/status",
    "/status?part=state",
    "/status?part=services",
)
PAUSE = 0.5
"""Seconds between two requests, as of two pages that refresh every second."""


class Observed(Rig):
    """Syncs as in the daemon, with the parts that are shown."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self._history, self._health = History(time.time), Health(60.0, lambda: True)
        self.sync = FamilySync(
            self.cluster,
            Family.IPV4,
            SyncTarget(self.dataplane, notify=self._observe),
            Schedule(0.0, 30.0, 3600.0),
            lambda: THIS_NODE,
        )
        self._config = KubeProxyConfiguration(mode="nftables")
        traffic = Traffic({Family.IPV4: self.dataplane})
        facts = RunFacts(self._config, resolve({})[0], {}, 0.0, THIS_NODE.name)
        live = Live(self._state, traffic)
        self.page = router(routes(facts, Registry(), self._health, live), Listeners.METRICS)

    def _state(self) -> State:
        family = FamilyState(
            family=Family.IPV4,
            builder=self.sync.builder,
            node=self.sync.node,
            failed=self.sync.failed,
            failure=self.sync.failure,
            healthy=True,
            waiting=self._health.waiting(Family.IPV4),
            history=self._history.of(Family.IPV4),
            dataplane=self.dataplane,
        )
        return State(
            config=self._config,
            mode=load_mode("nftables"),
            config_file="",
            source="the bench",
            started=0.0,
            now=time.time(),
            cluster=self.cluster,
            families={Family.IPV4: family},
            counts_connections=True,
            healthy=True,
            eligible=True,
            gaps=(),
            ignored=(),
            remains=(),
        )

    def _observe(self, observation: Observation) -> None:
        self._history.observe(observation)
        self._health.observe(observation)

    async def fill(self) -> None:
        await self.sync.sync()
        gc.freeze()  # as the daemon does after its first sync

    async def program(self, event: bytes) -> None:
        self.sync.touch(self.take(event))
        await self.sync.sync()


async def main(size: Size, only: str) -> None:
    rig = Observed(size)
    await rig.fill()
    first = next(iter(rig.cluster.services(Family.IPV4)))

    async with asyncio.TaskGroup() as tasks:
        listening = listen("127.0.0.1", 0)
        number = listening.getsockname()[1]
        port = Port((listening,), rig.page, Room(), tasks)
        for path in PATHS:
            if only in path:
                target = path.format(namespace=first.namespace, name=first.name)
                await compare(rig, target, target, number, PAUSE)
        port.close()


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3])), "".join(sys.argv[3:])))
