"""Bytes of a request -> a value, or an error. No I/O.

As strict as Go's server where it matters to proxies between us and the client (lengths, names of
headers), as lenient where people type requests by hand (bare line feeds).
"""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

import msgspec

from kubeproxy.base.errors import KubeProxyError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_REQUEST_LINE = re.compile(rf"({_TOKEN.pattern}) ([^ ]*) HTTP/(\d)\.(\d)")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH = re.compile(r"[0-9]{1,18}")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_LONGEST_END = 4


class BadRequest(KubeProxyError):
    """Not a valid request; `status` says why, the text says more."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status = status


class Ends(NamedTuple):
    """Addresses and ports of a connection, the client's and ours."""

    client: tuple[str, int]
    server: tuple[str, int]


class Request(msgspec.Struct, frozen=True):
    """What a client asks.

    `path` is decoded and without the query. `query` has the first value of each name, and `pairs`
    all of it; names of `headers` are in lower case, and the values of repeated ones are joined
    with commas. `peer` is the client's address, and `ends` has both ends of its connection.
    `trusted` says that root or our own user asks on this machine, once that was looked up.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    peer: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    ends: Ends | None = None
    trusted: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path; `//` and a slash at the end make no difference."""
        return tuple(part for part in self.path.split("/") if part)

    def values(self, name: str) -> list[str]:
        """All values of a name in the query, in their order."""
        return [value for each, value in self.pairs if each == name]


class Head(msgspec.Struct, frozen=True):
    """A request without its body: `length` bytes of it follow."""

    request: Request
    length: int = 0
    http11: bool = True
    keep_alive: bool = True

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits for an answer before it sends the body."""
        return self.request.headers.get("expect", "").lower() == "100-continue"


def wants_json(request: Request) -> bool:
    """Whether JSON is asked for, by the query or else by the header."""
    given = request.query.get("format", "")
    return given == "json" if given else "application/json" in request.headers.get("accept", "")


def end_of_head(data: bytes | bytearray, searched: int) -> int | None:
    """Where the head ends, if it does; the first `searched` bytes are known to hold no end."""
    found = _END_OF_HEAD.search(data, max(0, searched - _LONGEST_END))
    return found.end() if found else None


def parse_head(data: bytes) -> Head:
    """The head of a request, the blank line included."""
    first, *lines = data.decode("latin-1").replace("\r\n", "\n").rstrip("\n").split("\n")
    asked = _REQUEST_LINE.fullmatch(first)
    if asked is None:
        raise BadRequest(400)
    method, target, major, minor = asked.groups()
    if major != "1":
        raise BadRequest(505, "unsupported protocol version")
    headers = _parse_headers(lines)
    http11 = minor != "0"
    if http11 and "host" not in headers:
        raise BadRequest(400, "missing required Host header")
    path, pairs = _split_target(target)
    request = Request(method, path, dict(reversed(pairs)), headers, pairs=pairs)
    options = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    keep_alive = "close" not in options if http11 else "keep-alive" in options
    return Head(request, _length(headers), http11, keep_alive)


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not _TOKEN.fullmatch(name) or _CONTROL.search(value):
            raise BadRequest(400)
        key, text = name.lower(), value.strip(" \t")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _split_target(target: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Path and query of `/path?query`, or of the whole URL that a proxy would be sent."""
    if not target.startswith("/"):
        _, scheme, rest = target.partition("://")
        if not scheme and target != "*":
            raise BadRequest(400)
        target = "/" + rest.partition("/")[2] if scheme else target
    raw, _, query = target.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True, errors="replace")
    return unquote(raw), tuple(pairs)


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise BadRequest(411, "a body must come with its Content-Length")
    text = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(text):
        raise BadRequest(400)
    return int(text)
