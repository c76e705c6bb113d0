"""The latest failures of endpoints, for whoever asks again and again what is new."""

from kubeproxy.base.inet import join
from kubeproxy.base.steps import Steps
from kubeproxy.dataplane.failures import UNKNOWN
from kubeproxy.serve.healing.recent import NumberedFailure
from kubeproxy.serve.status import wire
from kubeproxy.serve.status.report import timestamp
from kubeproxy.serve.status.state import State


def failure_list(state: State, after: int) -> Steps[wire.FailureList]:
    """Those with a number above `after`, as far as they are kept."""
    started = timestamp(state.started)
    if state.record is None:
        return wire.FailureList(heals=False, started=started, last=0, missed=0, failures=())
    recent = state.record.recent
    last, found = recent.last, []
    for each in tuple(recent.after(after)):
        found.append(_failed(each))
        yield
    missed = max(0, last - after) - len(found)
    return wire.FailureList(
        heals=True, started=started, last=last, missed=missed, failures=tuple(found)
    )


def _failed(noted: NumberedFailure) -> wire.FailedConnections:
    name, failure = noted.name, noted.failure
    destination, endpoint = failure.destination, failure.endpoint
    return wire.FailedConnections(
        number=noted.number,
        time=timestamp(noted.at),
        service_port=str(name),
        protocol=name.protocol.name,
        ip_family=noted.family.value,
        client=failure.client,
        destination=join(destination.address, destination.port),
        endpoint="" if endpoint == UNKNOWN else join(*endpoint),
        reason=failure.reason.value,
        times=failure.times,
    )
