"""Asks the running daemon: over its Unix socket, or over HTTP where that is the way.

Nobody there is an error with an exit code of its own (3), so that scripts can tell "not running"
from "not well".
"""

import http.client
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from kubeproxy.base.errors import KubeProxyError, NoDaemonError, OperatorError
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import STRING
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.status.wire import ServiceDetail

SOCKET: Final = KubeProxyConfiguration().status_socket
ADDRESS: Final = "http://127.0.0.1:10249"
TIMEOUT: Final = 10.0
MOMENT: Final = 1.1
"""Seconds between two looks: a reading serves the daemon for one, and rates need two readings."""
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
    """The daemon answered, and not with what was asked for."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text.strip() or f"the daemon answered with status {status}")
        self.status = status


class NotAllowed(NoDaemonError):
    """There may be a daemon, but it does not speak with this user."""

    exit_code = 1


class _Stranger(Exception):
    """Something answers that does not speak our language."""


class _OverSocket(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Way(msgspec.Struct, frozen=True):
    """One way to a daemon: a socket's path, or the URL of a server."""

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
        raise OperatorError(f"--address {place}: must be such as {ADDRESS} or [::1]:{_PORT}")
    return host, port or _PORT


def ways(parsed: Parsed) -> Sequence[Way]:
    """The ways to try, in order, as the flags `FLAGS` say."""
    path, address = parsed.value("socket", str), parsed.value("address", str)
    if path and not path.startswith("/"):
        raise OperatorError(f"--socket {path}: must be an absolute path")
    given = [Way(place) for place in (path, address) if place]
    return given or [Way(SOCKET), Way(ADDRESS)]


class Client:
    """Whoever answers first of several ways; from then on that one."""

    def __init__(self, places: Iterable[Way]) -> None:
        self._ways = list(places)

    def get(self, path: str, type_: type[T], query: Query | None = None) -> T:
        """What the daemon says at a path, which is a JSON value of the type."""
        return self._ask(path, query or {}, lambda body: _decoded(body, type_))

    def read(self, path: str, query: Query | None = None) -> bytes:
        """What the daemon says at a path, as it is."""
        return self._ask(path, query or {}, bytes)

    def service(self, name: str) -> ServiceDetail:
        """A Service, by [NAMESPACE/]NAME; what is said of one that is not there is for people."""
        parts = name.split("/")
        if len(parts) > 2 or not all(parts):
            raise OperatorError(f"no Service has the name {name}: give [NAMESPACE/]NAME")
        try:
            return self.get(f"{SERVICES}/{name}", ServiceDetail)
        except Refusal as error:
            text = str(error).replace(f"{SERVICES}?q=", "kube-proxy services --search ")
            raise OperatorError(text.replace(SERVICES, "kube-proxy services")) from error

    def _ask(self, path: str, query: Query, read: Callable[[bytes], T]) -> T:
        target = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
        failures: list[tuple[Way, Exception]] = []
        for way in self._ways:
            try:
                value = read(_fetch(way, target))
            except (OSError, UnicodeError, http.client.HTTPException, _Stranger) as error:
                failures.append((way, error))
            else:
                self._ways = [way]
                return value
        raise _nobody(failures)


def _fetch(way: Way, target: str) -> bytes:
    connection = way.open()
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status == 200:
        return body
    text = body.decode(errors="replace").strip()
    if response.status == 404 and text == "404 page not found":  # as every Go server says it
        raise _Stranger("what answers there has no such page: another program, or another version")
    raise Refusal(response.status, text)


def _decoded(body: bytes, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise _Stranger(f"what answers there is another program or version: {error}") from error


def _nobody(failures: Sequence[tuple[Way, Exception]]) -> NoDaemonError:
    if any(_is_refused(*each) for each in failures):
        return NotAllowed("\n".join(_said("you may not ask the kube-proxy here:", failures)))
    return NoDaemonError("\n".join(_said("no kube-proxy answers here:", failures)))


def _is_refused(way: Way, error: Exception) -> bool:
    """Whether it is for who we are: the file's permissions, or a daemon that hangs up on us."""
    if way.is_socket and isinstance(error, ConnectionResetError | BrokenPipeError):
        return not _is_welcome(way.place)
    return isinstance(error, PermissionError)


def _is_welcome(path: str) -> bool:
    """Whether the daemon of the socket answers us: root, or the user whose socket it is."""
    try:
        owner = Path(path).stat().st_uid
    except OSError:  # it has gone, as the daemon has
        return True
    return os.geteuid() in {0, owner}


def _said(heading: str, failures: Iterable[tuple[Way, Exception]]) -> Iterator[str]:
    yield heading
    for way, error in failures:
        yield f"  {way.place}: {_reason(way, error)}"
    yield (
        "Is it running on this node? Its socket (statusSocket, --status-socket of the daemon) is"
        " named with --socket, its metrics address with --address."
    )


def _reason(way: Way, error: Exception) -> str:
    if _is_refused(way, error):
        return "only root and the user of the daemon may ask it; try sudo"
    match error:
        case TimeoutError():
            said = f"it does not answer within {TIMEOUT:g} s"
        case ConnectionResetError() | BrokenPipeError() | http.client.IncompleteRead():
            said = "it hung up before it had answered: it has just ended, or starts anew"
        case UnicodeError():
            said = "that is not the name of a host"
        case http.client.HTTPException():
            said = "what answers there does not speak HTTP"
        case FileNotFoundError():
            said = "there is no such socket"
        case OSError():
            said = error.strerror or str(error)
        case _:
            said = str(error)
    return said or type(error).__name__
