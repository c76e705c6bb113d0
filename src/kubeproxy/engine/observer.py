"""What happens in the daemon, as values for its observers: health, metrics, status.

The parts of the daemon notify an `Observer` and do not wait for it. Observers are called in the
event loop, for every event of a large cluster, so they must be quick.
"""

from collections.abc import Callable

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import SyncReport
from kubeproxy.dataplane.failures import Failure
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.schedule import Outcome
from kubeproxy.table.diff import Changes
from kubeproxy.table.entries import ServicePortName


class LoopStarted(msgspec.Struct, frozen=True, gc=False):
    """The family's sync loop runs from now on."""

    family: Family


class SyncRequested(msgspec.Struct, frozen=True, gc=False):
    """Something changed that the family's next sync has to apply.

    `services` is how many services have changed since the last sync started.
    """

    family: Family
    services: int


class SyncStarted(msgspec.Struct, frozen=True, gc=False):
    """A sync started; it applies everything that was requested so far."""

    family: Family


class SyncEnded(msgspec.Struct, frozen=True):
    """A sync has ended; `report` is None when it failed."""

    family: Family
    outcome: Outcome
    full: bool
    seconds: float
    changes: Changes
    report: SyncReport | None


class ObjectReceived(msgspec.Struct, frozen=True):
    """The source delivered an object, or that it is `gone`.

    `families` are those in which it changes a service. `trigger` is the annotation with the time
    at which the change of an EndpointSlice began; "" when there is none.
    """

    kind: Kind
    key: ObjectKey
    families: tuple[Family, ...]
    gone: bool = False
    trigger: str = ""


class FlowsCleaned(msgspec.Struct, frozen=True, gc=False):
    """Stale UDP flows were deleted; `deleted` is how many."""

    family: Family
    seconds: float
    deleted: int


class ConnectionsFailed(msgspec.Struct, frozen=True):
    """Endpoints failed connections, of these service ports; the dataplane did what it could."""

    family: Family
    failures: tuple[tuple[ServicePortName, Failure], ...]


class EndpointEjected(msgspec.Struct, frozen=True):
    """An endpoint fails and is left out for so many seconds."""

    family: Family
    ejection: Ejection
    seconds: float


class EndpointTriedAgain(msgspec.Struct, frozen=True):
    """An endpoint that was left out is used again."""

    family: Family
    ejection: Ejection


class EjectionWithheld(msgspec.Struct, frozen=True):
    """An endpoint of a service port should be left out, but too many are already."""

    family: Family
    name: ServicePortName


Observation = (
    LoopStarted
    | SyncRequested
    | SyncStarted
    | SyncEnded
    | ObjectReceived
    | FlowsCleaned
    | ConnectionsFailed
    | EndpointEjected
    | EndpointTriedAgain
    | EjectionWithheld
)
Observer = Callable[[Observation], None]


def ignore(_: Observation) -> None:
    """An observer that does nothing."""
