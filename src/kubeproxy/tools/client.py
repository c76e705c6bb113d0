"""Queries the running daemon, over its Unix socket or over HTTP.

That no daemon runs has an exit code of its own (3), so that scripts can distinguish it.
"""

import http.client
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kubeproxy.base.errors import FieldError, KubeProxyError, NoDaemonError, OperatorError
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import STRING
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.status.wire import FieldProblem, ServiceDetail

SOCKET: Final = KubeProxyConfiguration().status_socket
ADDRESS: Final = "http://127.0.0.1:10249"
TIMEOUT: Final = 10.0
MOMENT: Final = 1.1
"""Seconds between two queries: the daemon caches a reading for one, and rates need two."""
_PORT: Final = 10249

FLAGS: Final = (
    Flag(
        "socket",
        STRING,
        "",
        f"The daemon's Unix socket; default: {SOCKET}, then --address.",
        "Daemon",
    ),
    Flag(
        "address",
        STRING,
        "",
        f"The daemon's metrics address instead, such as {ADDRESS}.",
        "Daemon",
    ),
)

SERVICES: Final = "/status/services"

T = TypeVar("T")
Query = Mapping[str, str | Sequence[str]]
"""Names and values; several of a name when it is repeated."""


class Refusal(KubeProxyError):
    """The daemon answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text or f"the daemon answered with status {status}")
        self.status = status


class NotAllowed(NoDaemonError):
    """There may be a daemon, but it does not serve this user."""

    exit_code = 1


class _OtherProgram(Exception):
    """What answers is not a daemon of this program and version."""


class _OverSocket(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class DaemonAddress(msgspec.Struct, frozen=True):
    """One way to reach a daemon: the path of a socket, or the URL of a server."""

    place: str

    @property
    def is_socket(self) -> bool:
        """Whether it is a path."""
        return self.place.startswith("/")

    def open(self) -> http.client.HTTPConnection:
        """A connection that is not yet made."""
        if self.is_socket:
            return _OverSocket(self.place, TIMEOUT)
        host, port = _host_and_port(self.place)
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT)


def _host_and_port(place: str) -> tuple[str, int]:
    try:
        url = urlsplit(place if "://" in place else f"http://{place}")
        host, port = url.hostname, url.port
    except ValueError:
        host = None
    if not host or " " in host or url.scheme != "http" or url.path not in {"", "/"} or url.query:
        raise FieldError("address", place, f"must be such as {ADDRESS} or [::1]:{_PORT}")
    return host, port or _PORT


def ways(parsed: Parsed) -> Sequence[DaemonAddress]:
    """The ways to try, in order, as the flags `FLAGS` say."""
    path, address = parsed.value("socket", str), parsed.value("address", str)
    if path and not path.startswith("/"):
        raise FieldError("socket", path, "must be an absolute path")
    given = [DaemonAddress(place) for place in (path, address) if place]
    return given or [DaemonAddress(SOCKET), DaemonAddress(ADDRESS)]


class Client:
    """Uses the first of several ways that leads to a daemon, and stays with it."""

    def __init__(self, places: Iterable[DaemonAddress]) -> None:
        self._ways = list(places)

    def get(self, path: str, type_: type[T], query: Query | None = None) -> T:
        """The JSON value at a path, decoded to the type."""
        return self._ask(path, query or {}, lambda body: _decoded(body, type_))

    def read(self, path: str, query: Query | None = None) -> bytes:
        """The bytes at a path."""
        return self._ask(path, query or {}, bytes)

    def service(self, name: str) -> ServiceDetail:
        """A Service, by [NAMESPACE/]NAME."""
        parts = name.split("/")
        if len(parts) > 2 or not all(parts):
            raise OperatorError(f"no Service has the name {name}: give [NAMESPACE/]NAME")
        try:
            return self.get(f"{SERVICES}/{name}", ServiceDetail)
        except Refusal as error:
            raise OperatorError(str(error)) from error

    def _ask(self, path: str, query: Query, read: Callable[[bytes], T]) -> T:
        target = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
        failures: list[tuple[DaemonAddress, Exception]] = []
        for way in self._ways:
            try:
                value = read(_fetch(way, target))
            except (OSError, UnicodeError, http.client.HTTPException, _OtherProgram) as error:
                failures.append((way, error))
            else:
                self._ways = [way]
                return value
        raise _no_daemon(failures)


def _fetch(way: DaemonAddress, target: str) -> bytes:
    connection = way.open()
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status == 200:
        return body
    if response.headers.get_content_type() == "application/json":
        problem = _decoded(body, FieldProblem)
        raise FieldError(problem.field, problem.value, problem.reason)
    text = body.decode(errors="replace").strip()
    if response.status == 404 and text == "404 page not found":  # the text of every Go server
        raise _OtherProgram("it has no such page: another program, or another version")
    raise Refusal(response.status, text)


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise _OtherProgram(f"it is another program or version: {error}") from error


def _no_daemon(failures: Sequence[tuple[DaemonAddress, Exception]]) -> NoDaemonError:
    if any(_is_refused(*each) for each in failures):
        return NotAllowed("\n".join(_report("permission denied:", failures)))
    return NoDaemonError("\n".join(_report("no kube-proxy answers here:", failures)))


def _is_refused(way: DaemonAddress, error: Exception) -> bool:
    """Whether it is for the user: by the permissions of the file, or by a daemon that hangs up."""
    if way.is_socket and isinstance(error, ConnectionResetError | BrokenPipeError):
        return not _is_served(way.place)
    return isinstance(error, PermissionError)


def _is_served(path: str) -> bool:
    """Whether the daemon of the socket answers us: root, and the user who owns the socket."""
    try:
        owner = Path(path).stat().st_uid
    except OSError:  # removed with the daemon
        return True
    return os.geteuid() in {0, owner}


def _report(heading: str, failures: Iterable[tuple[DaemonAddress, Exception]]) -> Iterator[str]:
    yield heading
    for way, error in failures:
        yield f"  {way.place}: {_reason(way, error)}"
    yield (
        "Is it running on this node? Its socket (statusSocket, --status-socket of the daemon) is"
        " named with --socket, its metrics address with --address."
    )


_REASONS: Final = (
    (TimeoutError, "no answer within {timeout:g} s"),
    (
        (ConnectionResetError, BrokenPipeError, http.client.IncompleteRead),
        "the connection was closed before the answer: the daemon has just stopped",
    ),
    (UnicodeError, "that is not the name of a host"),
    (http.client.HTTPException, "it does not speak HTTP"),
    (FileNotFoundError, "there is no such socket"),
)


def _reason(way: DaemonAddress, error: Exception) -> str:
    if _is_refused(way, error):
        return "only root and the user of the daemon have access; try sudo"
    for types, reason in _REASONS:
        if isinstance(error, types):
            return reason.format(timeout=TIMEOUT)
    return getattr(error, "strerror", "") or str(error) or type(error).__name__
