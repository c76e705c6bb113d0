"""The health-check node ports of services: load balancers read there how many endpoints are here.

Each IP family has ports of its own, because a dual-stack service has its own count in each. Which
are open follows from the syncs that succeeded; a failed sync changes nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kubeproxy.base import klog
from kubeproxy.base.inet import Family, Prefix, contains
from kubeproxy.engine.observer import Observation, SyncEnded
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.health.state import service_health
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.listening import ListenError, listen
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port
from kubeproxy.table.entries import HealthCheck, ServiceName

Refused = Callable[[ServiceName, int, ListenError], None]
Checks = Mapping[ServiceName, HealthCheck | None]

_EVERYWHERE = {Family.IPV4: ("0.0.0.0",), Family.IPV6: ("::",)}  # noqa: S104  # asked for
_OPENED_AT_ONCE = 32


def check_addresses(
    family: Family, ranges: Iterable[Prefix], addresses: Iterable[str]
) -> tuple[str, ...]:
    """Where the health-check ports of a family listen, on a node with these addresses.

    `ranges` are those of `nodePortAddresses`, of both families. Without one of the family, or
    with one that has every address, it is all addresses: one socket.
    """
    own = [prefix for prefix in ranges if prefix.family is family]
    if not own or any(prefix.length == 0 for prefix in own):
        return _EVERYWHERE[family]
    return tuple(
        address for address in addresses if any(contains(prefix, address) for prefix in own)
    )


class _Opened(NamedTuple):
    """A service's open port, and where it is."""

    number: int
    addresses: tuple[str, ...]
    port: Port


class FamilyPorts:
    """The ports of one family.

    A port that cannot be opened concerns its service alone: `refused` is called, and it is tried
    again the next time.
    """

    def __init__(
        self,
        family: Family,
        healthy: Callable[[], bool],
        refused: Refused,
        room: Room,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._family = family
        self._healthy = healthy
        self._refused = refused
        self._room = room
        self._tasks = tasks
        self._wanted: dict[ServiceName, HealthCheck] = {}
        self._open: dict[ServiceName, _Opened] = {}
        self._failed: set[ServiceName] = set()
        self._addresses: tuple[str, ...] = ()

    async def settle(self, changes: Checks, addresses: tuple[str, ...]) -> None:
        """Open the desired ports on these addresses, and answer with the current counts.

        `changes` are the checks that changed; None is one that was removed. Ports are closed
        before others are opened, because one may go to another Service.
        """
        for service, check in changes.items():
            if check is None:
                self._wanted.pop(service, None)
            else:
                self._wanted[service] = check
        due = self._failed | changes.keys()
        self._failed = set()
        if addresses != self._addresses:
            self._addresses = addresses
            due |= self._wanted.keys()
        for service in sorted(due):
            self._close_unless_right(service)
        closed = [name for name in sorted(due) if name in self._wanted and name not in self._open]
        for done, service in enumerate(closed, start=1):
            self._try(service, self._wanted[service].port)
            if done % _OPENED_AT_ONCE == 0:
                await asyncio.sleep(0)  # hundreds at the start must not hold up other tasks

    def close(self) -> None:
        """Close all ports, and drop their connections."""
        while self._open:
            self._open.popitem()[1].port.close()

    def _close_unless_right(self, service: ServiceName) -> None:
        check, opened = self._wanted.get(service), self._open.get(service)
        if opened is None or (check and (check.port, self._addresses) == opened[:2]):
            return
        klog.info("Closing healthcheck", v=2, service=str(service), port=opened.number)
        self._open.pop(service).port.close()

    def _try(self, service: ServiceName, number: int) -> None:
        """Open a port on all addresses, or on none."""
        klog.info("Opening healthcheck", v=2, service=str(service), port=number)
        try:
            with contextlib.ExitStack() as opened:
                sockets = [
                    opened.enter_context(listen(address, number, self._family))
                    for address in self._addresses
                ]
                opened.pop_all()
        except ListenError as error:
            self._failed.add(service)
            self._refused(service, number, error)
            return
        port = Port(sockets, partial(self._answer, service), self._room, self._tasks)
        self._open[service] = _Opened(number, self._addresses, port)

    def _answer(self, service: ServiceName, _: Request) -> Answer:
        check = self._wanted.get(service)
        local = check.local_endpoints if check else 0
        return service_health(service, local, healthy=self._healthy())


class HealthChecks:
    """The ports of all families, opened and closed after the syncs that succeed.

    `healthy` says whether the proxy as a whole is; `addresses` where a family listens now.
    """

    def __init__(
        self,
        healthy: Callable[[], bool],
        addresses: Callable[[Family], tuple[str, ...]],
        refused: Refused,
    ) -> None:
        self._healthy = healthy
        self._addresses = addresses
        self._refused = refused
        self._noted: dict[Family, dict[ServiceName, HealthCheck | None]] = {f: {} for f in Family}
        self._synced: asyncio.Queue[Family] = asyncio.Queue()

    def observe(self, observation: Observation) -> None:
        """Note what a sync changed, and whether it succeeded."""
        if isinstance(observation, SyncEnded):
            # A failed sync's changes come with the next one that succeeds.
            self._noted[observation.family].update(observation.changes.health_checks)
            if observation.outcome is not Outcome.FAILED:
                self._synced.put_nowait(observation.family)

    async def run(self) -> None:
        """Open, answer and close until cancelled."""
        room = Room()
        async with asyncio.TaskGroup() as tasks:
            ports = {
                family: FamilyPorts(family, self._healthy, self._refused, room, tasks)
                for family in Family
            }
            try:
                while True:
                    family = await self._synced.get()
                    changes, self._noted[family] = self._noted[family], {}
                    await ports[family].settle(changes, self._addresses(family))
            finally:
                for each in ports.values():
                    each.close()
