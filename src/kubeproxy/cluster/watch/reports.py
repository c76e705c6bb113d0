"""What the log hears of an API server: what an operator needs, and no flood.

An outage of the server is one line a minute for all resources together. A refusal of one resource
is one line a minute for that resource, and rarer for one that the proxy can do without.
"""

from datetime import UTC, datetime, timedelta

from kubeproxy.base import klog
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.failures import describe_refusal, describe_resource
from kubeproxy.cluster.client.resources import Resource
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.source import Gap
from kubeproxy.cluster.watch.complaints import Complaint, Cry, Relief
from kubeproxy.cluster.watch.setbacks import Reason, Setback, Skipped

PERIOD = 60.0
PERIOD_OF_KIND = {Kind.SERVICE_CIDR: 3600.0}
"""Servers before 1.33 do not have ServiceCIDRs, and older roles do not allow them."""

_VERBOSITY = {
    Reason.NOT_STREAMED: 2,
    Reason.EXPIRED: 4,
    Reason.UNFINISHED: 0,
    Reason.ERROR_EVENT: 0,
    Reason.SHORT: 0,
    Reason.NO_BOOKMARK: 0,
    Reason.NEVER_COMPLETE: 0,
    Reason.SILENT: 2,
    Reason.SUSPECT: 2,
}


class Reports:
    """Decides what is worth a line, for all resources of one server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._outage = Complaint(PERIOD)
        self._why = ""
        self._refusals: dict[Kind, Complaint] = {
            kind: Complaint(PERIOD_OF_KIND.get(kind, PERIOD)) for kind in Kind
        }
        self._why_refused: dict[Kind, str] = {}
        self._skipped: dict[tuple[Kind, ObjectKey | None], str] = {}

    def gaps(self, now: float) -> list[Gap]:
        """What the server does not tell us of. ServiceCIDRs we can do without."""
        found = []
        lasting = self._outage.lasting(now)
        if lasting is not None:
            found.append(Gap("everything", self._why, lasting))
        for kind, complaint in self._refusals.items():
            lasting = complaint.lasting(now)
            if lasting is not None and kind is not Kind.SERVICE_CIDR:
                found.append(Gap(f"{kind.value}s", self._why_refused[kind], lasting))
        return found

    def answered(self, resource: Resource, now: float) -> None:
        """The server gave what was asked for."""
        self._relieve(self._outage.worked(resource.kind, now), "API server is back")
        relief = self._refusals[resource.kind].worked(resource.kind, now)
        self._relieve(relief, f"API server serves {resource.name} again")

    def unreachable(self, resource: Resource, why: Exception, now: float) -> None:
        """Nobody answered, or there is nothing to prove ourselves with."""
        self._why = str(why)
        cry = self._outage.failed(resource.kind, now)
        if cry is not None:
            klog.error(
                "API server cannot be reached, the rules stay as they are",
                err=why,
                server=self._access.server,
                since=_since(cry),
            )

    def cut(self, resource: Resource, why: Exception) -> None:
        """A watch broke off and will be resumed."""
        klog.info("Watch was cut and is resumed", v=2, resource=resource.name, reason=str(why))

    def setback(self, resource: Resource, setback: Setback, now: float) -> None:
        """Something did not go as it should."""
        if setback.reason in (Reason.REFUSED, Reason.NOT_NOW) and setback.status is not None:
            self._refused(resource, setback.status, now)
            return
        why = str(setback.status) if setback.status is not None else setback.detail
        pairs = {"resource": resource.name} | ({"reason": why} if why else {})
        if setback.reason in _VERBOSITY:
            klog.info(setback.reason.value, v=_VERBOSITY[setback.reason], **pairs)
        else:
            klog.error(setback.reason.value, **pairs)

    def _refused(self, resource: Resource, status: Status, now: float) -> None:
        """A server that fails, or does not know us or our words, does so for all resources."""
        what = describe_resource(resource)
        text = describe_refusal(status, what, self._access.server, self._access.identity)
        if status.code in (400, 401) or status.code >= 500:
            self._why = text
            cry = self._outage.failed(resource.kind, now)
            message = "API server does not serve us, the rules stay as they are"
        else:
            self._relieve(self._outage.worked(resource.kind, now), "API server is back")
            self._why_refused[resource.kind] = text
            cry = self._refusals[resource.kind].failed(resource.kind, now)
            message = "API server refuses a resource"
        if cry is not None:
            klog.error(message, err=text, since=_since(cry))

    def skipped(self, resource: Resource, skipped: Skipped) -> None:
        """An object does not decode; said once for each version of it."""
        identity = (resource.kind, skipped.error.key)
        if self._skipped.get(identity) != skipped.version:
            self._skipped[identity] = skipped.version
            klog.error(
                "Failed to read an object, what was known of it stands",
                err=skipped.error,
                resourceVersion=skipped.version,
            )

    def _relieve(self, relief: Relief | None, message: str) -> None:
        if relief is not None:
            lasting = timedelta(seconds=round(relief.lasting, 1))
            klog.info(message, server=self._access.server, after=lasting)


def _since(cry: Cry) -> str:
    began = datetime.now(UTC) - timedelta(seconds=cry.lasting)
    return began.strftime("%Y-%m-%dT%H:%M:%SZ")
