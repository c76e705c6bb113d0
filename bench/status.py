"""The status over HTTP: how long each answer takes, and what syncs notice of somebody who polls.

As `bench.traffic`: three addresses for each service, one family, and rounds with and without the
client that take turns. A third argument is a part of the paths that are wanted.

PYTHONPATH=tests python -m lab.enter -- python -m bench.status 8000 30
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable

from bench.clusters import Size
from bench.compiled import THIS_NODE
from bench.traffic import Rig, compare
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.engine.observer import Observation
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.sync import FamilySync, Outlet
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.access import Access
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.listening import listen
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port
from kubeproxy.serve.metrics.server import find_page
from kubeproxy.serve.status.history import History
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.pages import status
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
    "/status",
    "/status?part=state",
    "/status?part=services",
)
PAUSE = 0.5
"""Seconds between two questions, as of two people whose pages ask every second."""


class Observed(Rig):
    """A kernel whose syncs are those of the daemon, with the parts that people may look at."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self._history, self._health = History(), Health(60.0, lambda: True)
        setting = (THIS_NODE, self.vantage)
        self.sync = FamilySync(
            self.cluster,
            Family.IPV4,
            Outlet(self.dataplane, notify=self._hear),
            Schedule(0.0, 30.0, 3600.0),
            lambda: setting,
        )
        self.live = Live(
            config=KubeProxyConfiguration(mode="nftables"),
            mode=load_mode("nftables"),
            config_file="",
            source="the bench",
            started=0.0,
            cluster=self.cluster,
            syncs={Family.IPV4: self.sync},
            health=self._health,
            history=self._history,
            eligible=lambda: True,
            gaps=tuple,
            ignored=tuple,
            remains=tuple,
            traffic=Traffic({Family.IPV4: self.dataplane}),
        )

    def _hear(self, observation: Observation) -> None:
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

    def page(request: Request) -> Awaitable[Answer]:
        return status(request, rig.live, Access.LOCAL)

    async with asyncio.TaskGroup() as tasks:
        listening = listen("127.0.0.1", 0)
        number = listening.getsockname()[1]
        port = Port(
            (listening,),
            find_page({"/status": page, "/status/": page}, profiling=False),
            Room(),
            tasks,
        )
        for path in PATHS:
            if only in path:
                target = path.format(namespace=first.namespace, name=first.name)
                await compare(rig, target, target, number, PAUSE)
        port.close()


if __name__ == "__main__":
    asyncio.run(main(Size(*map(int, sys.argv[1:3])), "".join(sys.argv[3:])))
