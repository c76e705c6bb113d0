"""The health-check node ports of services: load balancers read there how many endpoints are here.

Each IP family has ports of its own, because a dual-stack service has its own count in each. Which
are open follows from the syncs that succeeded; a failed sync changes nothing.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kubeproxy.base import klog
from kubeproxy.base.inet import Family, Prefix, contains
from kubeproxy.engine.observer import Observation, SyncEnded
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.health.answers import service_health
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.listening import ListenError, Network, listen
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.room import Room
from kubeproxy.serve.http.server import Port
from kubeproxy.table.entries import HealthCheck, ServiceName

Refused = Callable[[ServiceName, int, ListenError], None]
Checks = Mapping[ServiceName, HealthCheck | None]

_NETWORK = {Family.IPV4: Network.TCP4, Family.IPV6: Network.TCP6}
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
    """The ports of one family: `note` what changes, then `settle`.

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
        self._due: set[ServiceName] = set()
        self._counts: dict[ServiceName, int] = {}
        self._addresses: tuple[str, ...] = ()

    def note(self, changes: Checks) -> None:
        """These checks changed; None is one that was removed."""
        self._due |= changes.keys()
        for service, check in changes.items():
            if check is None:
                self._wanted.pop(service, None)
            else:
                self._wanted[service] = check

    async def settle(self, addresses: tuple[str, ...]) -> None:
        """Open the desired ports on these addresses, and answer with the current counts.

        Ports are closed before others are opened, because one may go to another Service.
        """
        if addresses != self._addresses:
            self._addresses = addresses
            self._due |= self._wanted.keys()
        due = sorted(self._due)
        for service in due:
            self._update(service)
        for done, service in enumerate(due, start=1):
            if service in self._wanted and service not in self._open:
                self._try(service, self._wanted[service].port)
                if done % _OPENED_AT_ONCE == 0:
                    await asyncio.sleep(0)  # hundreds at the start must not hold up other tasks

    def close(self) -> None:
        """Close all ports, and drop their connections."""
        for service in tuple(self._open):
            self._close(service)

    def _update(self, service: ServiceName) -> None:
        """Close a port that is not desired as it is; one that stays gets its new count."""
        check, opened = self._wanted.get(service), self._open.get(service)
        if check is None:
            self._counts.pop(service, None)
            self._due.discard(service)
        else:
            self._counts[service] = check.local_endpoints
        if opened is None:
            return
        if check is not None and (check.port, self._addresses) == opened[:2]:
            self._due.discard(service)
            return
        klog.info("Closing healthcheck", v=2, service=str(service), port=opened.number)
        self._close(service)

    def _close(self, service: ServiceName) -> None:
        self._open.pop(service).port.close()

    def _try(self, service: ServiceName, number: int) -> None:
        klog.info("Opening healthcheck", v=2, service=str(service), port=number)
        try:
            sockets = _listen_on_all(self._addresses, number, _NETWORK[self._family])
        except ListenError as error:
            self._refused(service, number, error)
            return
        self._due.discard(service)
        port = Port(sockets, partial(self._answer, service), self._room, self._tasks)
        self._open[service] = _Opened(number, self._addresses, port)

    def _answer(self, service: ServiceName, _: Request) -> Answer:
        return service_health(service, self._counts.get(service, 0), healthy=self._healthy())


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
        self._noted: dict[Family, dict[ServiceName, HealthCheck | None]] = {}
        self._synced: set[Family] = set()
        self._wake = asyncio.Event()

    def observe(self, observation: Observation) -> None:
        """Note what a sync changed, and whether it succeeded."""
        if isinstance(observation, SyncEnded):
            # A failed sync's changes come with the next one that succeeds.
            self._noted.setdefault(observation.family, {}).update(
                observation.changes.health_checks
            )
            if observation.outcome is not Outcome.FAILED:
                self._synced.add(observation.family)
                self._wake.set()

    async def run(self) -> None:
        """Open, answer and close until cancelled."""
        room = Room()
        ports: dict[Family, FamilyPorts] = {}
        async with asyncio.TaskGroup() as tasks:
            for family in Family:
                ports[family] = FamilyPorts(family, self._healthy, self._refused, room, tasks)
            try:
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    while self._synced:
                        family = self._synced.pop()
                        ports[family].note(self._noted.pop(family))
                        await ports[family].settle(self._addresses(family))
            finally:
                for each in ports.values():
                    each.close()


def _listen_on_all(
    addresses: Iterable[str], number: int, network: Network
) -> tuple[socket.socket, ...]:
    """A socket on each of the addresses, or on none of them."""
    sockets: list[socket.socket] = []
    try:
        sockets.extend(listen(address, number, network) for address in addresses)
    except ListenError:
        for each in sockets:
            each.close()
        raise
    return tuple(sockets)
