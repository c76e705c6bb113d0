"""Sends events to the API server.

Recording returns at once. One task sends the events, in order: it shares the rate limit of the
other requests and has one under way at most, so that events cannot delay watches and lists.
"""

import asyncio
import contextlib
import random
import time
from http import HTTPStatus

from kubeproxy.base import klog
from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.source import Write
from kubeproxy.serve.events.event import Event, Occurrence, create, update
from kubeproxy.serve.events.series import Series

MOST_WAITING = 1000
MOST_TRIES = 12
RETRY_PERIOD = 10.0
RETRY_JITTER = 0.25
LAST_WORDS = 1.0
"""Seconds that the end of the process waits until its reason is sent."""


class Recorder:
    """Takes events and sends them; `host` is the name of this machine, not of the Node.

    Without a sink, as with manifests, events are only logged.
    """

    def __init__(self, host: str, sink: Write | None = None) -> None:
        self._host = host
        self._sink = sink
        self._waiting: asyncio.Queue[tuple[Event, int]] = asyncio.Queue(MOST_WAITING)
        self._series = Series()
        self.dropped = 0
        """How many events found no room, or no API server for too long."""
        self._is_full = False

    def record(self, event: Event) -> None:
        """Queue an event for the API server; never waits."""
        klog.info(
            "Event occurred",
            v=2,
            object=str(event.subject),
            kind=event.subject.kind,
            type=event.severity.value,
            reason=event.reason,
            action=event.action,
            note=event.note,
        )
        if self._sink is None:
            return
        try:
            self._waiting.put_nowait((event, time.time_ns()))
        except asyncio.QueueFull:
            self.dropped += 1
            if not self._is_full:
                self._is_full = True
                klog.error("Too many events wait for the API server, dropping new ones")

    async def record_last(self, event: Event) -> None:
        """Record why the process is about to end, and wait for a moment until it is sent."""
        self.record(event)
        if self._sink is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await self._waiting.join()

    async def run(self) -> None:
        """Send until cancelled."""
        if self._sink is None:
            return
        while True:
            await self._send_next(self._sink)
            for occurrence in self._series.due(time.time_ns()):
                await self._deliver(self._sink, occurrence)

    async def _send_next(self, sink: Write) -> None:
        """Wait for an event and send it, or until a series is due."""
        due = self._series.next_due()
        seconds = None if due is None else max(0.0, (due - time.time_ns()) / 10**9)
        try:
            async with asyncio.timeout(seconds):
                event, moment = await self._waiting.get()
        except TimeoutError:
            return
        occurrence = self._series.observe(event, moment)
        if occurrence is not None:
            await self._deliver(sink, occurrence)
        self._waiting.task_done()
        if self._is_full and self._waiting.empty():
            self._is_full = False
            klog.info("Events have room again", dropped=self.dropped)

    async def _deliver(self, sink: Write, occurrence: Occurrence) -> None:
        """Send; try again while the server cannot be reached, a limited number of times."""
        name = occurrence.name
        for _ in range(MOST_TRIES):
            try:
                status = await self._send(sink, occurrence)
            except (ApiServerError, OperatorError) as error:
                klog.info("Unable to write event, will try again", v=2, event=name, err=error)
            else:
                if status is None:
                    return
                # Gone when it was to be patched, there again when it was to be created: once more.
                if occurrence.count == 1 or status.reason != "AlreadyExists":
                    klog.error(
                        "Server rejected event (will not retry!)", err=str(status), event=name
                    )
                    return
            # Chance spreads the load of many nodes; nothing secret depends on it.
            await asyncio.sleep(RETRY_PERIOD * random.uniform(1, 1 + RETRY_JITTER))  # noqa: S311
        self.dropped += 1
        klog.error("Unable to write event (retry limit exceeded!)", event=name)

    async def _send(self, sink: Write, occurrence: Occurrence) -> Status | None:
        """Create the event, or patch the existing one; create it again when it is gone."""
        if occurrence.count > 1:
            status = await sink(*update(occurrence))
            if status is None or status.code != HTTPStatus.NOT_FOUND:
                return status
        return await sink(*create(occurrence, self._host))
