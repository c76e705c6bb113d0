"""Which endpoints are left out because they fail, and until when. Time is an argument.

An endpoint is left out when it fails often enough within an interval, and others of its service
port do not. After a while it is tried again; if it fails then, it is left out for twice as long.
There are always endpoints left, and no more than a share of them is left out.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.base.healing import Healing
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.table.entries import Backend, Entry, ServicePortName

ALONE = 3
"""How many times as often one client alone must see an endpoint fail."""
_MOST_REMEMBERED = 1000


class Limits(msgspec.Struct, frozen=True):
    """When an endpoint is left out, for how many seconds, and how many of them."""

    failures: int = 3
    interval: float = 10.0
    seconds: float = 5.0
    most_seconds: float = 120.0
    percent: int = 50


class Ejection(msgspec.Struct, frozen=True):
    """An endpoint of a service port that is left out until a time: why, and how often in a row."""

    name: ServicePortName
    endpoint: Endpoint
    until: float
    reason: Reason
    failures: int
    clients: int
    times: int


class _Record(msgspec.Struct):
    """What is known of an endpoint of a service port.

    `failures` are those of late: when, of whom, how many. `ejection` is the last one; `until` it
    the endpoint is left out, and for as long again it is on trial.
    """

    failures: list[tuple[float, str, int]] = []
    ejection: Ejection | None = None


class Ejector:
    """The records of all endpoints that failed of late."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._records: dict[ServicePortName, dict[Endpoint, _Record]] = {}

    def observe(
        self, failures: Iterable[tuple[Failure, Entry]], now: float
    ) -> tuple[list[Ejection], list[ServicePortName]]:
        """What follows from failures, each with the entry that it is of.

        The endpoints that are left out from now on; and the service ports where one more should
        be, but is not because too many are.
        """
        touched: dict[ServicePortName, tuple[Entry, Reason, dict[Endpoint, None]]] = {}
        for failure, entry in failures:
            if entry.healing & Healing.EJECT and _has(entry, failure.endpoint):
                self._note(entry.name, failure, now)
                found = touched.setdefault(entry.name, (entry, failure.reason, {}))
                found[2][failure.endpoint] = None
        ejected: list[Ejection] = []
        full: list[ServicePortName] = []
        for name, (entry, reason, endpoints) in touched.items():
            for endpoint in endpoints:
                ejection = self._judge(entry, endpoint, reason, now)
                if ejection is None:
                    continue
                is_well = any(self._is_well(name, each, now) for each in _others(entry, endpoint))
                if is_well and self._has_room(entry, endpoint, now):
                    self._records[name][endpoint] = _Record(ejection=ejection)
                    ejected.append(ejection)
                elif is_well or self.of(name, now):
                    full.append(name)
        return ejected, full

    def _note(self, name: ServicePortName, failure: Failure, now: float) -> None:
        records = self._records.setdefault(name, {})
        record = records.setdefault(failure.endpoint, _Record())
        recent = [each for each in record.failures if each[0] > now - self._limits.interval]
        recent.append((now, failure.client, failure.times))
        record.failures = recent[-_MOST_REMEMBERED:]

    def _judge(
        self, entry: Entry, endpoint: Endpoint, reason: Reason, now: float
    ) -> Ejection | None:
        """The ejection that an endpoint deserves; None when it deserves none, or has it."""
        limits, records = self._limits, self._records[entry.name]
        record = records[endpoint]
        last = record.ejection
        if last is not None and now < last.until:
            return None
        failures = sum(count for _, _, count in record.failures)
        clients = len({client for _, client, _ in record.failures})
        needed = limits.failures if clients > 1 else ALONE * limits.failures
        times = last.times + 1 if last is not None and self._on_trial(last, now) else 1
        if times == 1 and failures < needed:
            return None
        seconds = min(limits.seconds * 2.0 ** min(times - 1, 32), limits.most_seconds)
        return Ejection(entry.name, endpoint, now + seconds, reason, failures, clients, times)

    def _on_trial(self, last: Ejection, now: float) -> bool:
        return now < last.until + self._seconds(last)

    def _seconds(self, ejection: Ejection) -> float:
        limits = self._limits
        return min(limits.seconds * 2.0 ** min(ejection.times - 1, 32), limits.most_seconds)

    def _is_well(self, name: ServicePortName, endpoint: Endpoint, now: float) -> bool:
        """Whether an endpoint is in use and has not failed of late."""
        record = self._records.get(name, {}).get(endpoint)
        if record is None:
            return True
        if record.ejection is not None and now < record.ejection.until:
            return False
        return all(at <= now - self._limits.interval for at, _, _ in record.failures)

    def _has_room(self, entry: Entry, endpoint: Endpoint, now: float) -> bool:
        """Whether one more may be left out: of all endpoints, and of those on this node."""
        out = {each.endpoint for each in self.of(entry.name, now)} | {endpoint}
        every = {*entry.cluster, *entry.local, *entry.ejected}
        lists = [every]
        if entry.local and any(_of(each) == endpoint and each.local for each in every):
            lists.append({each for each in every if each.local})
        return all(
            count < len(backends) and 100 * count <= self._limits.percent * len(backends)
            for backends in lists
            for count in [sum(_of(each) in out for each in backends)]
        )

    def of(self, name: ServicePortName, now: float) -> list[Ejection]:
        """The endpoints of a service port that are left out now."""
        return [
            record.ejection
            for record in self._records.get(name, {}).values()
            if record.ejection is not None and now < record.ejection.until
        ]

    def forget(self, entries: Mapping[ServicePortName, Entry], now: float) -> None:
        """Forget endpoints that have gone, or have not failed for long enough."""
        for name, records in list(self._records.items()):
            entry = entries.get(name)
            for endpoint, record in list(records.items()):
                last = record.ejection
                is_out = last is not None and (now < last.until or self._on_trial(last, now))
                if (
                    entry is None
                    or not _has(entry, endpoint)
                    or (not is_out and self._is_well(name, endpoint, now))
                ):
                    del records[endpoint]
            if not records:
                del self._records[name]


def _of(backend: Backend) -> Endpoint:
    return Endpoint(backend.address, backend.port)


def _has(entry: Entry, endpoint: Endpoint) -> bool:
    return any(_of(each) == endpoint for each in (*entry.cluster, *entry.local, *entry.ejected))


def _others(entry: Entry, endpoint: Endpoint) -> list[Endpoint]:
    found = {_of(each): None for each in (*entry.cluster, *entry.local)}
    return [each for each in found if each != endpoint]
