"""What is logged about an API server: what an operator needs, without flooding the log.

An outage of the server is one line a minute for all resources together. A refused resource is one
line a minute, and fewer for a resource that the proxy can do without.
"""

from collections.abc import Hashable
from datetime import UTC, datetime, timedelta

from kubeproxy.base import klog
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.failures import describe_refusal
from kubeproxy.cluster.client.resources import Resource
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.source import Gap
from kubeproxy.cluster.watch.incidents import Incident, IncidentReason

PERIOD = 60.0
PERIOD_OF_KIND = {Kind.SERVICE_CIDR: 3600.0}
"""Servers before 1.33 do not have ServiceCIDRs, and older roles do not allow them."""


class Outage:
    """Something that fails, for several clients at once; at most one log line a period.

    The methods return how many seconds the outage has lasted when a line is due, None otherwise.
    """

    def __init__(self, period: float) -> None:
        self.reason = ""
        self._period = period
        self._failing: set[Hashable] = set()
        self._since = 0.0
        self._last_line: float | None = None
        self._is_logged = False

    def duration(self, now: float) -> float | None:
        """For how many seconds it has been failing; None when it works."""
        return now - self._since if self._failing else None

    def failed(self, client: Hashable, reason: str, now: float) -> float | None:
        """It failed for this client."""
        self.reason = reason
        if not self._failing:
            self._since = now
            self._is_logged = False
        self._failing.add(client)
        if self._last_line is not None and now - self._last_line < self._period:
            return None
        self._last_line = now
        self._is_logged = True
        return now - self._since

    def worked(self, client: Hashable, now: float) -> float | None:
        """It worked for this client: a line is due at the end of an outage that was logged."""
        if client not in self._failing:
            return None
        self._failing.discard(client)
        return None if self._failing or not self._is_logged else now - self._since


class Reports:
    """Logs what happens to all resources of one server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._outage = Outage(PERIOD)
        self._refusals = {kind: Outage(PERIOD_OF_KIND.get(kind, PERIOD)) for kind in Kind}
        self._undecodable: dict[tuple[Kind, ObjectKey | None], str] = {}
        self._heard: float | None = None

    def heard(self, now: float) -> None:
        """Something came from the server: objects, or a bookmark, which comes every minute."""
        self._heard = now

    def silence(self, now: float) -> float | None:
        """For how long nothing has come; None before the first time."""
        return None if self._heard is None else now - self._heard

    def gaps(self, now: float) -> list[Gap]:
        """What cannot be read from the server now. ServiceCIDRs are not needed."""
        outages = {"everything": self._outage} | {
            f"{kind.value}s": refusal
            for kind, refusal in self._refusals.items()
            if kind is not Kind.SERVICE_CIDR
        }
        return [
            Gap(what, outage.reason, duration)
            for what, outage in outages.items()
            if (duration := outage.duration(now)) is not None
        ]

    def answered(self, resource: Resource, now: float) -> None:
        """The server served a request."""
        self._reachable(resource, now)
        duration = self._refusals[resource.kind].worked(resource.kind, now)
        self._log_end(duration, f"API server serves {resource.name} again")

    def unreachable(self, resource: Resource, error: Exception, now: float) -> None:
        """There was no response, or there are no valid credentials."""
        duration = self._outage.failed(resource.kind, str(error), now)
        if duration is not None:
            klog.error(
                "API server unreachable, the rules stay as they are",
                err=error,
                server=self._access.server,
                since=_start(duration),
            )

    def cut(self, resource: Resource, error: Exception) -> None:
        """A watch was cut off and will be resumed."""
        klog.info("Watch was cut off, resuming", v=2, resource=resource.name, reason=str(error))

    def incident(self, resource: Resource, incident: Incident, now: float) -> None:
        """Log an incident."""
        reason, status = incident.reason, incident.status
        if reason in (IncidentReason.REFUSED, IncidentReason.TRY_LATER) and status is not None:
            self._refused(resource, status, now)
            return
        message, verbosity = reason.value
        detail = str(status) if status is not None else incident.detail
        pairs = {"resource": resource.name} | ({"reason": detail} if detail else {})
        if verbosity is None:
            klog.error(message, **pairs)
        else:
            klog.info(message, v=verbosity, **pairs)

    def _refused(self, resource: Resource, status: Status, now: float) -> None:
        """Internal errors, and requests or credentials that are not valid, concern all kinds."""
        what = f"{resource.name} ({resource.path})"
        text = describe_refusal(status, what, self._access.server, self._access.identity)
        if status.code in (400, 401) or status.code >= 500:
            duration = self._outage.failed(resource.kind, text, now)
            message = "API server refuses all requests, the rules stay as they are"
        else:
            self._reachable(resource, now)
            duration = self._refusals[resource.kind].failed(resource.kind, text, now)
            message = "API server refuses a resource"
        if duration is not None:
            klog.error(message, err=text, since=_start(duration))

    def undecodable(self, error: UndecodableObject) -> None:
        """Log an object that cannot be decoded, once for each version of it."""
        identity = (error.kind, error.key)
        if self._undecodable.get(identity) != error.resource_version:
            self._undecodable[identity] = error.resource_version
            klog.error(
                "Failed to decode an object, its last valid version stays in use",
                err=error,
                resourceVersion=error.resource_version,
            )

    def _reachable(self, resource: Resource, now: float) -> None:
        duration = self._outage.worked(resource.kind, now)
        self._log_end(duration, "API server reachable again")

    def _log_end(self, duration: float | None, message: str) -> None:
        if duration is not None:
            after = timedelta(seconds=round(duration, 1))
            klog.info(message, server=self._access.server, after=after)


def _start(duration: float) -> str:
    start = datetime.now(UTC) - timedelta(seconds=duration)
    return start.strftime("%Y-%m-%dT%H:%M:%SZ")
