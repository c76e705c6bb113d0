"""What the API client does, as values for those who keep count of it."""

from collections.abc import Callable

import msgspec


class Attempt(msgspec.Struct, frozen=True):
    """One HTTP request."""

    method: str
    host: str
    code: str
    """The status, or `<error>` when there was none."""
    waited: float
    """Seconds, for the rate limit."""
    watch: bool
    retry_of: str = ""
    """The status of the attempt that this one repeats, if it does."""


class Exchange(msgspec.Struct, frozen=True):
    """What was asked for, with all attempts and the answer to its end; not watches, which last."""

    method: str
    host: str
    seconds: float
    sent: int
    """Bytes of the body."""
    received: int | None
    """Bytes of the answer's body, unpacked; None when there was no answer."""


Observe = Callable[[Attempt | Exchange], None]


def nobody(_: Attempt | Exchange) -> None:
    """Keeps no count."""
