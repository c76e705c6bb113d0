"""A daemon with scripted answers: for those that a real one does not give.

The real one answers the same commands in tests/lab/test_terminal.py.
"""

import http.server
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec

Query = Mapping[str, list[str]]
Reply = msgspec.Struct | tuple[int, str | msgspec.Struct] | list[msgspec.Struct]
Page = Callable[[Query], Reply]


def always(reply: Reply) -> Page:
    """The same, whatever is asked."""
    return lambda _: reply


def in_turn(*replies: Reply) -> Page:
    """One after the other; the last one from then on."""
    waiting = list(replies)
    return lambda _: waiting.pop(0) if len(waiting) > 1 else waiting[0]


class FakeDaemon:
    """Answers by path, and remembers what it was asked."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self.asked: list[tuple[str, Query]] = []
        self.socket = ""
        self.address = ""

    def reply(self, target: str) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        url = urlsplit(target)
        query = parse_qs(url.query)
        self.asked.append((url.path, query))
        if url.path not in self.pages:
            return 404, "text/plain", b"404 page not found\n"
        reply = self.pages[url.path](query)
        status, said = reply if isinstance(reply, tuple) else (200, reply)
        if isinstance(said, str):
            return status, "text/plain", said.encode()
        return status, "application/json", msgspec.json.encode(said)

    def queries(self, path: str) -> list[Query]:
        return [query for asked, query in self.asked if asked == path]


class _Handler(http.server.BaseHTTPRequestHandler):
    daemon: FakeDaemon

    def do_GET(self) -> None:  # the library's name
        status, content_type, body = self.daemon.reply(self.path)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body:  # else the client may be gone already
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's
        pass

    def address_string(self) -> str:
        return "a client"


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def serving(daemon: FakeDaemon, path: Path) -> Iterator[FakeDaemon]:
    """Have it answer at a Unix socket, and on a port of the loopback address."""
    handler = type("Handler", (_Handler,), {"daemon": daemon})
    with (
        _UnixServer(str(path), handler) as unix,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as tcp,
        _running(unix),
        _running(tcp),
    ):
        daemon.socket = str(path)
        daemon.address = f"http://127.0.0.1:{tcp.server_address[1]}"
        yield daemon


@contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.005,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


def unused_port() -> int:
    """A port of the loopback address without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
