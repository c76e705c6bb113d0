"""What a dataplane that heals has seen of connections to endpoints that fail."""

from enum import Enum
from typing import NamedTuple

from kubeproxy.table.entries import FrontendKey


class Reason(Enum):
    """What became of a connection; the value is a label of metrics."""

    REFUSED = "refused"
    UNANSWERED = "unanswered"
    GONE = "gone"


class Endpoint(NamedTuple):
    """An endpoint by its address; "" and 0 where it is not known any more."""

    address: str
    port: int


UNKNOWN = Endpoint("", 0)


class Failure(NamedTuple):
    """Connections of a client to a destination that an endpoint failed; GONE are open ones."""

    reason: Reason
    client: str
    destination: FrontendKey
    endpoint: Endpoint
    times: int = 1
