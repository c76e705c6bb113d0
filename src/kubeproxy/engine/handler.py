"""Events of a source -> the cluster -> syncs of the families that they concern.

Syncs start when Services and EndpointSlices have both been listed and `ready` has been called.
The rules of an earlier run stay in place until then.
"""

from collections.abc import Callable, Sequence

from kubeproxy.base import klog
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.events import Delete, Event, Synced, Upsert
from kubeproxy.cluster.model.cluster import NOTHING, Cluster, Problem, Touched
from kubeproxy.cluster.objects.meta import TRIGGER_TIME_ANNOTATION, Kind, ObjectKey
from kubeproxy.engine.observer import ObjectReceived, Observer, ignore
from kubeproxy.engine.sync import FamilySync

_MOST_REPORTED = 10


class EventHandler:
    """Applies events to the cluster, and requests syncs of what they touch.

    `node_changed` is called when our Node changed and when a list is complete. What it raises
    ends the run, and no sync is requested then. `notify` is called for every object.
    """

    def __init__(
        self,
        cluster: Cluster,
        syncs: Sequence[FamilySync],
        node_changed: Callable[[], None],
        notify: Observer = ignore,
    ) -> None:
        self._cluster = cluster
        self._syncs = syncs
        self._node_changed = node_changed
        self._notify = notify
        self._is_ready = False
        self._is_open = False

    def deliver(self, event: Event) -> None:
        """Handle one event."""
        touched = self._apply(event)
        if isinstance(event, Upsert | Delete):
            self._notify(_received(event, touched))
        if touched.node or isinstance(event, Synced):
            self._node_changed()  # first: if it ends the run, nothing is synced
        if touched.node or touched.service_cidrs:
            for sync in self._syncs:
                sync.request()
        for sync in self._syncs:
            services = [key for family, key in touched.services if family is sync.family]
            if services:
                sync.touch(services)
        if isinstance(event, Synced):
            klog.info("Caches populated", v=2, type=event.kind.value)
            self._open_when_known()

    def ready(self) -> None:
        """This node is known: syncs may start when the cluster is known too."""
        self._is_ready = True
        self._open_when_known()

    def _open_when_known(self) -> None:
        known = self._cluster.synced(Kind.SERVICE, Kind.ENDPOINT_SLICE)
        if known and self._is_ready and not self._is_open:
            self._is_open = True
            for sync in self._syncs:
                sync.open()

    def _apply(self, event: Event) -> Touched:
        """Apply an event. An object that causes an unexpected error is skipped."""
        if not isinstance(event, Upsert):
            return self._cluster.apply(event)
        kind, key = event.kind, event.object.metadata.key
        problems = self._cluster.problems
        before = problems.get((kind, key), ())
        try:
            touched = self._cluster.apply(event)
        except Exception as error:  # noqa: BLE001  # whatever the bug: it must not stop us
            reason = f"{type(error).__name__}: {quoted(str(error))}"
            text = f"its last valid version stays in use: {reason}"
            problems[kind, key] = (Problem(kind, key, text),)
            touched = NOTHING
        new = [problem for problem in problems.get((kind, key), ()) if problem not in before]
        if new:
            _report(kind, key, new)
        return touched


def _report(kind: Kind, key: ObjectKey, problems: Sequence[Problem]) -> None:
    """Log the parts of an object that have become invalid."""
    for problem in problems[:_MOST_REPORTED]:
        klog.error("Part of an object is ignored", err=problem.text, kind=kind.value, object=key)
    more = len(problems) - _MOST_REPORTED
    if more > 0:
        klog.error(
            "Further parts of the object are ignored", kind=kind.value, object=key, count=more
        )


def _received(event: Upsert | Delete, touched: Touched) -> ObjectReceived:
    families = tuple(dict.fromkeys(family for family, _ in touched.services))
    if isinstance(event, Delete):
        return ObjectReceived(event.kind, event.key, families, gone=True)
    meta = event.object.metadata
    trigger = (meta.annotations or {}).get(TRIGGER_TIME_ANNOTATION, "")
    return ObjectReceived(event.kind, meta.key, families, trigger=trigger)
