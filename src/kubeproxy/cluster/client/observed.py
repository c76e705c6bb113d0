"""What the API client does, as values for metrics."""

from collections.abc import Callable

import msgspec


class Attempt(msgspec.Struct, frozen=True):
    """One HTTP request."""

    method: str
    host: str
    code: str
    """The status, or `<error>` when there was no response."""
    waited: float
    """Seconds, for the rate limit."""
    watch: bool
    retry_of: str = ""
    """The status of the attempt that this one repeats, if it does."""


class Exchange(msgspec.Struct, frozen=True):
    """A request with all its attempts, and the response to its end. Watches are not counted."""

    method: str
    host: str
    seconds: float
    sent: int
    """Bytes of the request's body."""
    received: int | None
    """Bytes of the response's body, decompressed; None when there was no response."""


Observe = Callable[[Attempt | Exchange], None]


def ignore(_: Attempt | Exchange) -> None:
    """An observer that does nothing."""
