"""What happens in the daemon, as values for its observers: health, metrics, status.

The parts of the daemon notify an `Observer` and do not wait for it. Observers are called in the
event loop, for every event of a large cluster, so they must be quick.
"""

from collections.abc import Callable

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.dataplane.contract import SyncReport
from kubeproxy.engine.schedule import Outcome
from kubeproxy.table.diff import Changes


class LoopStarted(msgspec.Struct, frozen=True, gc=False):
    """The family's sync loop runs from now on."""

    family: Family


class SyncRequested(msgspec.Struct, frozen=True, gc=False):
    """Something changed that the family's next sync has to see to.

    `services` is how many services have changed since the last sync began.
    """

    family: Family
    services: int


class SyncStarted(msgspec.Struct, frozen=True, gc=False):
    """A sync takes up everything that was wanted so far."""

    family: Family


class SyncEnded(msgspec.Struct, frozen=True):
    """A sync has ended, well or not; `report` is None when the kernel refused it altogether."""

    family: Family
    outcome: Outcome
    full: bool
    seconds: float
    changes: Changes
    report: SyncReport | None


class ObjectReceived(msgspec.Struct, frozen=True):
    """The source sent an object, or said that it is `gone`.

    `families` are those in which it changes a service. `trigger` is when the change of an
    EndpointSlice began, as its annotation spells it; "" when it does not say.
    """

    kind: Kind
    key: ObjectKey
    families: tuple[Family, ...]
    gone: bool = False
    trigger: str = ""


class FlowsCleaned(msgspec.Struct, frozen=True, gc=False):
    """Stale UDP flows were looked for; `deleted` is how many were there."""

    family: Family
    seconds: float
    deleted: int


Observation = LoopStarted | SyncRequested | SyncStarted | SyncEnded | ObjectReceived | FlowsCleaned
Observer = Callable[[Observation], None]


def ignore(_: Observation) -> None:
    """An observer that does nothing."""
