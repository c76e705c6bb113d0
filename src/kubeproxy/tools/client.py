"""Queries the running daemon, over its Unix socket or over HTTP.

That no daemon runs has an exit code of its own (3), so that scripts can distinguish it.
"""

import http.client
import os
import select
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kubeproxy.base.errors import FieldError, NoDaemonError, OperatorError
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import STRING
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.status.wire import FieldProblem, ServiceDetail

SOCKET: Final = KubeProxyConfiguration().status_socket
ADDRESS: Final = "http://127.0.0.1:10249"
TIMEOUT: Final = 10.0
MOMENT: Final = 1.1
"""Seconds between two queries: the daemon caches a reading for one, and rates need two."""
HUNG: Final = 2.0
"""Seconds after which a daemon hangs that answers nothing."""
_HALF: Final = HUNG / 2
_NO_PAGE: Final = "/status/"
"""A path that costs the daemon nothing."""
_CREDENTIALS: Final = struct.Struct("3i")
_STATES: Final = {
    "T": "is stopped by a signal: `kill -CONT {pid}` lets it go on",
    "t": "is stopped by a debugger",
    "D": "waits for the kernel",
}
_BUSY: Final = "runs, and does not get to answer"
_HANGS_ADVICE: Final = (
    "Its rules stay in force, and changes of Services have no effect. Restart it if that lasts."
)
_PORT: Final = 10249

_SOCKET_HELP: Final = f"The daemon's Unix socket; default: {SOCKET}, then --address."
_ADDRESS_HELP: Final = f"The daemon's metrics address instead, such as {ADDRESS}."
FLAGS: Final = (
    Flag("socket", STRING, "", _SOCKET_HELP, "Daemon"),
    Flag("address", STRING, "", _ADDRESS_HELP, "Daemon"),
)
SERVICES: Final = "/status/services"
_ADVICE: Final = (
    "Is it running on this node? Its socket (statusSocket, --status-socket of the daemon) is named"
    " with --socket, its metrics address with --address."
)

T = TypeVar("T")
Query = Mapping[str, str | Sequence[str]]
"""Names and values; several of a name when it is repeated."""


class ErrorResponse(OperatorError):
    """The daemon answered with an error, which says what to do."""


class NotAllowed(NoDaemonError):
    """There may be a daemon, but it does not serve this user."""

    exit_code = 1


class HungDaemon(NoDaemonError):
    """There is a daemon, and it does not answer."""


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


def open_connection(place: str) -> http.client.HTTPConnection:
    """A connection, not yet made, to the path of a socket or the URL of a server."""
    if place.startswith("/"):
        return _OverSocket(place, TIMEOUT)
    try:
        url = urlsplit(place if "://" in place else f"http://{place}")
        host, port = url.hostname, url.port or _PORT
    except ValueError:
        host = None
    if not host or " " in host or url.scheme != "http" or url.path not in {"", "/"} or url.query:
        raise FieldError("address", place, f"must be such as {ADDRESS} or [::1]:{_PORT}")
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT)


class Client:
    """Uses the first of several places where a daemon answers, and stays with it.

    A place is the path of a socket, or the URL of a server.
    """

    def __init__(self, places: Iterable[str]) -> None:
        self.places = list(places)

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
        return self.get(f"{SERVICES}/{name}", ServiceDetail)

    def _ask(self, path: str, query: Query, read: Callable[[bytes], T]) -> T:
        target = target_of(path, query)
        failures: dict[str, Exception] = {}
        for place in self.places:
            try:
                value = read(_fetch(place, target))
            except (OSError, UnicodeError, http.client.HTTPException, _OtherProgram) as error:
                failures[place] = error
            else:
                self.places = [place]
                return value
        raise _no_daemon(failures)


def target_of(path: str, query: Query) -> str:
    """What is asked for, as the first line of a request has it."""
    return quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")


def connect(parsed: Parsed) -> Client:
    """A client of the daemon that the flags `FLAGS` name, or of the one in the usual places."""
    path, address = parsed.value("socket", str), parsed.value("address", str)
    if path and not path.startswith("/"):
        raise FieldError("socket", path, "must be an absolute path")
    given = [place for place in (path, address) if place]
    return Client(given or (SOCKET, ADDRESS))


def _fetch(place: str, target: str) -> bytes:
    connection = open_connection(place)
    try:
        _connect(place, connection)
        connection.request("GET", target, headers={"Accept": "application/json"})
        if not _answers(connection, _HALF) and not _lives(place):
            raise HungDaemon(_hangs(place, connection))
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    return body_of(response.status, response.headers.get_content_type(), body)


def body_of(status: int, content_type: str, body: bytes) -> bytes:
    """The body of an answer; an exception when it is an error."""
    if status == 200:
        return body
    if content_type == "application/json":
        problem = _decoded(body, FieldProblem)
        raise FieldError(problem.field, problem.value, problem.reason)
    text = body.decode(errors="replace").strip()
    if status == 404 and text == "404 page not found":  # the text of every Go server
        raise _OtherProgram("it has no such page: another program, or another version")
    raise ErrorResponse(text or f"the daemon answered with status {status}")


def _connect(place: str, connection: http.client.HTTPConnection) -> None:
    """Make the connection; a daemon that does not even take it soon hangs."""
    connection.timeout = HUNG
    try:
        connection.connect()
    except (BlockingIOError, TimeoutError) as error:  # too many wait already
        raise HungDaemon(_hangs(place, connection)) from error
    connection.sock.settimeout(TIMEOUT)


def _answers(connection: http.client.HTTPConnection, seconds: float) -> bool:
    """Whether an answer begins within that time."""
    return bool(select.select([connection.sock], [], [], seconds)[0])


def _lives(place: str) -> bool:
    """Whether a daemon that takes its time over an answer answers what costs it nothing."""
    connection = open_connection(place)
    try:
        connection.request("GET", _NO_PAGE)
        if not _answers(connection, _HALF):
            return False
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    else:
        return True
    finally:
        connection.close()


def _hangs(place: str, connection: http.client.HTTPConnection) -> str:
    """That a daemon hangs, and which process it is, as far as that can be known."""
    what = f"kube-proxy hangs: {place} takes connections, and did not answer within {HUNG:g} s"
    is_unix = place.startswith("/") and connection.sock is not None
    lines = [what, *([_process_state(connection.sock)] if is_unix else []), _HANGS_ADVICE]
    return "\n  ".join(line for line in lines if line)


def _process_state(link: socket.socket) -> str:
    """What the process that listens at a Unix socket does; "" where it cannot be seen."""
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid = _CREDENTIALS.unpack(credentials)[0]
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
    return f"process {pid} {_STATES.get(state, _BUSY).format(pid=pid)}"


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise _OtherProgram(f"it is another program or version: {error}") from error


def _no_daemon(failures: Mapping[str, Exception]) -> NoDaemonError:
    reasons = {place: _reason(place, error) for place, error in failures.items()}
    lines = [*(f"  {place}: {reason}" for place, reason in reasons.items()), _ADVICE]
    if _NO_ACCESS in reasons.values():
        return NotAllowed("\n".join(["permission denied:", *lines]))
    return NoDaemonError("\n".join(["no kube-proxy answers here:", *lines]))


_NO_ACCESS: Final = "only root and the user of the daemon have access; try sudo"
_REASONS: Final = (
    (PermissionError, _NO_ACCESS),
    (TimeoutError, "no answer within {timeout:g} s"),
    (
        (ConnectionResetError, BrokenPipeError, http.client.IncompleteRead),
        "the connection was closed before the answer: the daemon has just stopped",
    ),
    (UnicodeError, "that is not the name of a host"),
    (http.client.HTTPException, "it does not speak HTTP"),
    (FileNotFoundError, "there is no such socket"),
)


def _reason(place: str, error: Exception) -> str:
    hung_up = isinstance(error, ConnectionResetError | BrokenPipeError)
    if hung_up and place.startswith("/") and not _is_served(place):
        return _NO_ACCESS
    for types, reason in _REASONS:
        if isinstance(error, types):
            return reason.format(timeout=TIMEOUT)
    return getattr(error, "strerror", "") or str(error) or type(error).__name__


def _is_served(path: str) -> bool:
    """Whether the daemon of the socket serves this user: root, and the owner of the socket."""
    try:
        owner = Path(path).stat().st_uid
    except OSError:  # removed with the daemon
        return True
    return os.geteuid() in {0, owner}
