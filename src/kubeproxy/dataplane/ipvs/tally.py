"""How many objects a change of one service port writes: worked out, and not written."""

from collections.abc import Callable

from kubeproxy.dataplane.contract import EntryChange
from kubeproxy.dataplane.ipvs.plan import PlanSetup, plan
from kubeproxy.dataplane.ipvs.state import DesiredState, ServerChange


def tally(setup: PlanSetup) -> Callable[[EntryChange], int]:
    """Counts virtual and real servers, members of ipsets, and addresses of the device."""

    def count(change: EntryChange) -> int:
        state = DesiredState(setup)
        was = {entry.name: plan(entry, setup) for entry in (change.before,) if entry}
        is_ = {entry.name: plan(entry, setup) for entry in (change.after,) if entry}
        state.replace(was)
        done = state.replace(dict.fromkeys(was) | is_)
        return sum(map(_servers, done.servers)) + len(done.added) + len(done.removed)

    return count


def _servers(change: ServerChange) -> int:
    """The virtual server, if it is another, and the real servers that come or go."""
    was, is_ = ({*each.reals} if each else set() for each in (change.before, change.after))
    virtuals = [each.virtual if each else None for each in (change.before, change.after)]
    return (virtuals[0] != virtuals[1]) + len(was ^ is_)
