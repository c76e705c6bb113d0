"""An answer as a value -> bytes, with the headers that Go's server would send. No I/O."""

from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import UTC, datetime
from http import HTTPStatus

import msgspec

from kubeproxy.serve.http.request import BadRequest, Head, Request

PLAIN_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
JSON = (("Content-Type", "application/json"), ("X-Content-Type-Options", "nosniff"))
LAST_CHUNK = b"0\r\n\r\n"


class Answer(msgspec.Struct, frozen=True):
    """What a client gets: a complete body, or one that is made in pieces.

    Date, length and framing are added on the way out; `headers` are sent in their order.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = PLAIN_TEXT
    body: bytes | AsyncIterable[bytes] = b""


Page = Callable[[Request], Answer | Awaitable[Answer]]
"""What answers a request, at once or later. It is called in the event loop, so it is quick."""


def text(body: str, status: int = 200) -> Answer:
    """Plain text."""
    return Answer(status, body=body.encode())


def not_found(_: Request) -> Answer:
    """What Go's server answers for an unknown path."""
    return text("404 page not found\n", 404)


def encode_head(answer: Answer, head: Head, now: float) -> bytes:
    """Status line and headers of the answer to a request, blank line included."""
    lines = [
        f"HTTP/1.{int(head.http11)} {answer.status} {HTTPStatus(answer.status).phrase}",
        *(f"{name}: {value}" for name, value in answer.headers),
        f"Date: {http_date(now)}",
    ]
    if isinstance(answer.body, bytes):
        lines.append(f"Content-Length: {len(answer.body)}")
    if keeps_open(answer, head):
        if not head.http11:
            lines.append("Connection: keep-alive")
    elif head.http11:
        lines.append("Connection: close")
    if is_chunked(answer, head):
        lines.append("Transfer-Encoding: chunked")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def is_chunked(answer: Answer, head: Head) -> bool:
    """Whether the body is sent in chunks; with HTTP/1.0 it ends with the connection."""
    return head.http11 and not isinstance(answer.body, bytes)


def keeps_open(answer: Answer, head: Head) -> bool:
    """Whether the connection serves another request after this one."""
    return head.keep_alive and (head.http11 or isinstance(answer.body, bytes))


def chunk(piece: bytes) -> bytes:
    """One chunk of a body; an empty one would be the last."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def refusal(error: BadRequest) -> bytes:
    """The answer to what is not a valid request; the connection ends with it."""
    line = f"{error.status} {HTTPStatus(error.status).phrase}"
    body = f"{line}: {error}" if str(error) else line
    head = f"HTTP/1.1 {line}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close"
    return f"{head}\r\n\r\n{body}".encode("latin-1")


def http_date(now: float) -> str:
    """A time such as `Mon, 02 Jan 2006 15:04:05 GMT`; nothing sets a locale: names are English."""
    return f"{datetime.fromtimestamp(now, UTC):%a, %d %b %Y %H:%M:%S} GMT"
