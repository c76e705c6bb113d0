"""What `HttpClient` needs of HTTP/1.1 and of HTTP/2: a request in, a response out."""

from collections.abc import Mapping
from typing import Protocol

import msgspec

Headers = tuple[tuple[str, str], ...]
"""In order, because impersonation repeats a name."""

JSON = "application/json"
CONNECT_TIMEOUT = 30.0
READ_SIZE = 64 * 1024
"""Limits how long other tasks wait while a chunk is handled."""


class Request(msgspec.Struct, frozen=True):
    """A request. The target is an encoded path, with a query where there is one."""

    method: str
    target: str
    headers: Headers
    body: bytes | None = None


class Route(msgspec.Struct, frozen=True):
    """How to reach a server: where it is, the name that it must prove, and a proxy."""

    scheme: str
    host: str
    port: int
    authority: str
    """Host and port as the URL has them."""
    server_name: str = ""
    proxy: str = ""


class Pings(msgspec.Struct, frozen=True):
    """A ping is sent after so many seconds of silence, and must be answered within so many.

    The defaults are upstream's. Without a positive `idle` no pings are sent.
    """

    idle: float = 30.0
    answer: float = 15.0


class NotOffered(Exception):
    """The server does not offer HTTP/2."""


class RawResponse(Protocol):
    """A response as it comes from the connection: compressed, if the server chose to."""

    @property
    def status(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are in lower case, or their case does not matter."""
        ...

    async def read(self) -> bytes:
        """The next bytes as soon as there are any; empty at the end.

        Raises a `RequestFailed`, or an `OSError`.
        """
        ...

    def close(self) -> None:
        """Leave the rest unread."""
        ...

    def keep_alive(self) -> None:
        """Have it noticed when the peer vanishes while nothing is sent."""
        ...
