"""The events that this proxy records, as values.

Reasons and actions are upstream's: people filter and alert on them.
"""

from enum import Enum

import msgspec

from kubeproxy.base.version import KUBERNETES_VERSION, VERSION

_START = "StartKubeProxy"


class Severity(Enum):
    """The two types of events that there are."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Subject(msgspec.Struct, frozen=True):
    """The object that an event is about; a Node has no namespace."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Event(msgspec.Struct, frozen=True):
    """Something that happened; the time and the reporter are added when it is recorded."""

    subject: Subject
    severity: Severity
    reason: str
    action: str
    note: str = ""


def starting(node: str, mode: str) -> Event:
    """The proxy of the node is set up and watches the cluster.

    Upstream's has no note; here it says which of the two has started, and in which mode.
    """
    note = f"kubeproxy {VERSION} (kube-proxy {KUBERNETES_VERSION}) in {mode} mode"
    return Event(Subject("Node", node), Severity.NORMAL, "Starting", _START, note)


def service_health_port_failed(
    node: str, service: Subject, port: int, error: Exception | str
) -> Event:
    """A health check node port of a Service could not be opened."""
    note = f'node {node} failed to start healthcheck "{service}" on port {port}: {error}'
    return Event(service, Severity.WARNING, "FailedToStartServiceHealthcheck", "Listen", note)


def health_server_failed(node: str, error: Exception | str) -> Event:
    """The health server could not be started, which ends the process."""
    reason = "FailedToStartProxierHealthcheck"
    return Event(Subject("Node", node), Severity.WARNING, reason, _START, str(error))


def metrics_server_failed(node: str, error: Exception | str) -> Event:
    """The metrics server could not be started, which ends the process."""
    reason = "FailedToStartMetricServer"
    return Event(Subject("Node", node), Severity.WARNING, reason, _START, str(error))
