"""`/healthz` and `/livez`: hears what happens, and answers on the health port."""

import time
from collections import Counter
from collections.abc import Callable

from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.engine.observer import Observation
from kubeproxy.serve.health.answers import Clock, Verdict, healthz, judge, livez
from kubeproxy.serve.health.state import Families, Instant, observe
from kubeproxy.serve.http.answer import Answer, Page, by_path
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.server import serve


def now() -> Instant:
    """The time on both clocks."""
    return Instant(time.monotonic(), time.time_ns())


class Health:
    """The health of this proxy. `answered` counts answers by path and status code, from 0 on.

    `eligible` says whether load balancers should use this node at all, as its Node has it.
    """

    def __init__(
        self,
        timeout: float,
        eligible: Callable[[], bool],
        clock: Callable[[], Instant] = now,
    ) -> None:
        pages: dict[str, Page] = {"/healthz": self._healthz, "/livez": self._livez}
        self.answered = Counter({(path, code): 0 for path in pages for code in (200, 503)})
        self._timeout = timeout
        self._eligible = eligible
        self._clock = clock
        self._families: Families = {}
        self.page: Page = by_path(pages)

    def observe(self, observation: Observation) -> None:
        """Take note of what happened."""
        self._families = observe(self._families, observation, self._clock())

    @property
    def healthy(self) -> bool:
        """Whether the syncs of every family keep up."""
        return self._judge(self._clock()).healthy

    def waiting(self, family: Family) -> float | None:
        """How many seconds something has been waiting for the family's sync; None if nothing."""
        health = self._families.get(family)
        return health.waiting(self._clock().seconds) if health else None

    def keeps_up(self, family: Family) -> bool:
        """Whether the family's syncs keep up; true before its loop has started."""
        return self._judge(self._clock()).healthy_families.get(family, True)

    def _healthz(self, request: Request) -> Answer:
        clock = self._time()
        answer = healthz(self._judge(clock.now), clock, eligible=self._eligible())
        return self._counted(request, answer)

    def _livez(self, request: Request) -> Answer:
        clock = self._time()
        return self._counted(request, livez(self._judge(clock.now), clock))

    def _counted(self, request: Request, answer: Answer) -> Answer:
        self.answered[request.path, answer.status] += 1
        return answer

    def _judge(self, instant: Instant) -> Verdict:
        return judge(self._families, instant, self._timeout)

    def _time(self) -> Clock:
        instant = self._clock()
        return Clock(instant, time.localtime(instant.wall_ns / 1e9).tm_gmtoff)


async def serve_health(health: Health, address: str, *, hard_fail: bool) -> None:
    """Answer on the health port until cancelled; with `hard_fail`, a port in use is an error."""

    def refused(error: ListenError) -> None:
        text = f"failed to start proxy healthz on {address}: {error}"
        klog.error("Healthz server failed", err=text)
        if hard_fail:
            raise ListenError(f"healthz server failed: {text}")

    await serve(address, health.page, refused)
