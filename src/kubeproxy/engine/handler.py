"""Events of a source -> the cluster -> syncs of the families that they concern.

Syncs start when Services and EndpointSlices have both been listed and `ready` has been called.
The rules of an earlier run stay in place until then.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from kubeproxy.base import klog
from kubeproxy.base.printable import quoted
from kubeproxy.cluster.events import Delete, Event, Keep, Reset, Synced, Upsert
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
        self._problems: dict[tuple[Kind, ObjectKey], tuple[Problem, ...]] = {}
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

    @property
    def problems(self) -> list[Problem]:
        """The parts of objects that are invalid and ignored."""
        return [problem for problems in self._problems.values() for problem in problems]

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
        match event:
            case Upsert():
                touched = self._upsert(event)
                self._report(event.kind, event.object.metadata.key, touched.problems)
                return touched
            case Delete():
                self._report(event.kind, event.key, ())
                return self._cluster.delete(event.kind, event.key)
            case Keep():
                self._cluster.keep(event.kind, event.key)
                return NOTHING
            case Reset():
                self._cluster.reset(event.kind)
                return NOTHING
            case Synced():
                return self._cluster.complete(event.kind)
            case _:
                assert_never(event)

    def _upsert(self, event: Upsert) -> Touched:
        """Apply an object. One that causes an unexpected error is skipped: it must not stop us."""
        try:
            return self._cluster.upsert(event.kind, event.object)
        except Exception as error:  # noqa: BLE001  # whatever the bug
            reason = f"{type(error).__name__}: {quoted(str(error))}"
            text = f"its last valid version stays in use: {reason}"
            return Touched(problems=(Problem(event.kind, event.object.metadata.key, text),))

    def _report(self, kind: Kind, key: ObjectKey, problems: Iterable[Problem]) -> None:
        """Log the invalid parts of an object: once, and not at every update of it."""
        now = tuple(problems)
        before = self._problems.pop((kind, key), ())
        if now:
            self._problems[kind, key] = now
        new = [problem for problem in now if problem not in before]
        for problem in new[:_MOST_REPORTED]:
            klog.error(
                "Part of an object is ignored", err=problem.text, kind=kind.value, object=key
            )
        if len(new) > _MOST_REPORTED:
            klog.error(
                "Further parts of the object are ignored",
                kind=kind.value,
                object=key,
                count=len(new) - _MOST_REPORTED,
            )


def _received(event: Upsert | Delete, touched: Touched) -> ObjectReceived:
    families = tuple(dict.fromkeys(family for family, _ in touched.services))
    if isinstance(event, Delete):
        return ObjectReceived(event.kind, event.key, families, gone=True)
    meta = event.object.metadata
    trigger = (meta.annotations or {}).get(TRIGGER_TIME_ANNOTATION, "")
    return ObjectReceived(event.kind, meta.key, families, trigger=trigger)
