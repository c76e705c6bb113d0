"""What the list and watch protocol yields beside events: incidents, for the log."""

from enum import Enum

import msgspec

from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.objects.decode import UndecodableObject


class IncidentReason(Enum):
    """What went wrong: the log message, and its verbosity; None for an error."""

    WATCH_LIST_REFUSED = "The API server refused the watch-list, falling back to a list", 2
    NOT_ACCEPTABLE = "The API server does not send what was accepted, asking for JSON", 2
    EXPIRED = "The resourceVersion of the watch has expired, relisting", 4
    REFUSED = "The API server refused the request", None
    TRY_LATER = "The API server asked to retry later", None
    ERROR_EVENT = "The API server ended the watch with an ERROR event, relisting", 0
    INVALID_DATA = "The API server sent invalid data, relisting", None
    CLOSED_AT_ONCE = "The API server closed the watch at once, relisting", 0
    INCOMPLETE = "The API server closed the watch-list before it was complete", 0
    NO_BOOKMARK = "The API server has not completed the watch-list yet", 0
    NEVER_COMPLETE = "The API server does not complete the watch-list, falling back to a list", 0
    IDLE = "The watch was idle for too long, opening it again", 2
    NO_EVENTS = "The watch ended without any event or bookmark, relisting", 2
    UNKNOWN_EVENT = "Ignored a watch event of unknown type", None


class Incident(msgspec.Struct, frozen=True):
    """Something that an operator may want to know. It has been handled already."""

    reason: IncidentReason
    status: Status | None = None
    detail: str = ""


Output = Event | Incident | UndecodableObject
