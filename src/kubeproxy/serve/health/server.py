"""`/healthz` and `/livez` of the health port: the state of the syncs, observed and judged."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta, timezone

from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import Observation
from kubeproxy.serve.health.state import Families, Instant, health_answer, observe
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request


def now() -> Instant:
    """The time on both clocks."""
    return Instant(time.monotonic(), time.time_ns())


class Health:
    """The health of this proxy. `answered` counts answers by path and status code, from 0 on.

    `eligible` says whether load balancers should use this node at all, as its Node has it.
    """

    def __init__(
        self, timeout: float, eligible: Callable[[], bool], clock: Callable[[], Instant] = now
    ) -> None:
        paths = ("/healthz", "/livez")
        self.answered = Counter({(path, code): 0 for path in paths for code in (200, 503)})
        self._timeout = timeout
        self._eligible = eligible
        self._clock = clock
        self._families: Families = {}

    def observe(self, observation: Observation) -> None:
        """Update the state with an observation."""
        self._families = observe(self._families, observation, self._clock())

    @property
    def healthy(self) -> bool:
        """Whether the syncs of every family keep up."""
        return all(map(self.keeps_up, self._families))

    def waiting(self, family: Family) -> float | None:
        """For how many seconds a change has been waiting for its sync; None if none is."""
        health = self._families.get(family)
        return health.waiting(self._clock().seconds) if health else None

    def keeps_up(self, family: Family) -> bool:
        """Whether the family's syncs keep up; true before its loop has started."""
        health = self._families.get(family)
        return health is None or health.is_healthy(self._clock().seconds, self._timeout)

    def healthz(self, request: Request) -> Answer:
        """Whether load balancers should use this node."""
        return self._answer(request, eligible=self._eligible())

    def livez(self, request: Request) -> Answer:
        """Whether the process lives and its syncs keep up."""
        return self._answer(request, eligible=None)

    def _answer(self, request: Request, *, eligible: bool | None) -> Answer:
        now = self._clock()
        zone = timezone(timedelta(seconds=time.localtime(now.wall_ns / 1e9).tm_gmtoff))
        answer = health_answer(self._families, now, zone, self._timeout, eligible=eligible)
        self.answered[request.path, answer.status] += 1
        return answer
