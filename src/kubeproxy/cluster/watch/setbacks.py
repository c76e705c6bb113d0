"""What the list+watch machine says beside the events: reasons, for the edge to log."""

from enum import Enum

import msgspec

from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Event
from kubeproxy.cluster.objects.decode import UndecodableObject


class Reason(Enum):
    """Why things did not go straight on; the value is what the log says."""

    NOT_STREAMED = "The API server refuses the watch-list, a list is tried instead"
    EXPIRED = "The version to resume from has expired, everything is told anew"
    REFUSED = "The API server refused"
    NOT_NOW = "The API server asks for patience"
    ERROR_EVENT = "The API server ended the watch with an error event, everything is told anew"
    GARBAGE = "The API server sent something that is not its protocol, everything is told anew"
    SHORT = "The API server closed the watch at once, everything is told anew"
    UNFINISHED = "The API server closed the watch-list before it was complete"
    NO_BOOKMARK = "The API server has not completed the watch-list yet"
    NEVER_COMPLETE = "The API server does not complete the watch-list, a list is tried instead"
    SILENT = "The watch gave no sign of life, it is opened again"
    SUSPECT = "The watch had no bookmark from beginning to end, everything is told anew"
    UNKNOWN_EVENT = "A watch event of unknown type is skipped"


class Setback(msgspec.Struct, frozen=True):
    """Something that an operator may want to hear of; the machine has dealt with it."""

    reason: Reason
    status: Status | None = None
    detail: str = ""


class Skipped(msgspec.Struct, frozen=True):
    """An object that does not decode; what was known of it before stands."""

    error: UndecodableObject
    version: str


Saying = Event | Setback | Skipped
