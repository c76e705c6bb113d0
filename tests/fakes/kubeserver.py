"""An API server with nodes, and pods in which commands are run, for a real kubectl.

It serves the objects of a `FakeCluster` (see `fakes.kubectl`), and runs what is executed in a pod
on this machine. WebSocket is refused as to a user who may only create `pods/exec`: kubectl uses
SPDY then, as its releases before 1.29 always do.
"""

import http.server
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO
from urllib.parse import parse_qs, unquote, urlsplit

from fakes.apidiscovery import discovery
from fakes.kubectl import FakeCluster, Object, fits
from fakes.spdy import Opened, Ping, Spdy, data_frame, pong

PROTOCOL = "v4.channel.k8s.io"
_CORE = "/api/v1/"
_STREAMS = {"error", "stdout", "stderr"}
_SUCCESS = {"metadata": {}, "status": "Success"}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: FakeCluster

    def do_GET(self) -> None:  # the library's name
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        path = unquote(url.path)
        if path in self.cluster.raw:
            self._answer(200, self.cluster.raw[path].encode())
        elif path.endswith("/exec"):
            self._refuse(403, "Forbidden", 'User "desk" cannot get resource "pods/exec"')
        else:
            found = discovery(path) or _object(self.cluster, path, query)
            if found is None:
                self._refuse(404, "NotFound", f"{path} not found")
            else:
                self._answer(200, json.dumps(found).encode())

    def do_POST(self) -> None:  # the library's name
        url = urlsplit(self.path)
        command = parse_qs(url.query)["command"]
        inside = self.cluster.inside.get(url.path.split("/")[-2])
        if inside is None:
            self._refuse(500, "InternalError", "error dialing backend: no route to the node")
            return
        assert PROTOCOL in ",".join(self.headers.get_all("X-Stream-Protocol-Version", []))
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "SPDY/3.1")
        self.send_header("X-Stream-Protocol-Version", PROTOCOL)
        self.end_headers()
        self.close_connection = True
        _Execution(self.connection.recv, self.connection.sendall).run([*inside, *command])

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refuse(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        more = {"reason": reason, "message": message, "code": code}
        self._answer(code, json.dumps({**status, **more}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's
        pass


def _object(cluster: FakeCluster, path: str, query: Mapping[str, str]) -> object:
    """What is at a path: a list of pods or nodes, or one pod."""
    parts = path.removeprefix(_CORE).split("/")
    match parts:
        case ["nodes"]:
            return _list("Node", cluster.nodes)
        case ["pods"]:
            return _list("Pod", cluster.pods)
        case ["namespaces", namespace, "pods"]:
            selector = query.get("labelSelector", "")
            return _list("Pod", [p for p in cluster.pods if fits(p, namespace, selector)])
        case ["namespaces", namespace, "pods", name]:
            for each in cluster.pods:
                meta = each["metadata"]
                assert isinstance(meta, Mapping)
                if (meta["namespace"], meta["name"]) == (namespace, name):
                    return {"kind": "Pod", "apiVersion": "v1", **each}
    return None


def _list(kind: str, items: Sequence[Object]) -> object:
    return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": items}


class _Execution:
    """A command whose output goes to the other end of a connection, stream by stream."""

    def __init__(self, receive: Callable[[int], bytes], send: Callable[[bytes], object]) -> None:
        self._receive = receive
        self._send = send
        self._sending = threading.Lock()
        self._spdy = Spdy()

    def run(self, command: Sequence[str]) -> None:
        streams = dict(self._opened())
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            pumps = [
                threading.Thread(target=self._pump, args=(streams[name], source))
                for name, source in (("stdout", process.stdout), ("stderr", process.stderr))
            ]
            for pump in pumps:
                pump.start()
            for pump in pumps:
                pump.join()
        ended = json.dumps(_status(process.returncode)).encode()
        self._write(data_frame(streams["error"], ended, last=True))
        while data := self._receive(65536):  # the other end closes when it has read all
            self._answer_pings(data)

    def _opened(self) -> Iterator[tuple[str, int]]:
        """The streams, when all of them are there."""
        missing = set(_STREAMS)
        while missing:
            data = self._receive(65536)
            assert data, "the other end has gone"
            for event in self._spdy.received(data):
                if isinstance(event, Opened):
                    self._write(self._spdy.accept(event.stream))
                    name = event.headers["streamtype"]
                    missing.remove(name)
                    yield name, event.stream

    def _answer_pings(self, data: bytes) -> None:
        for event in self._spdy.received(data):
            if isinstance(event, Ping):
                self._write(pong(event))

    def _pump(self, stream: int, source: IO[bytes]) -> None:
        while data := source.read1(65536):  # type: ignore[attr-defined]  # pipes are buffered
            self._write(data_frame(stream, data))
        self._write(data_frame(stream, b"", last=True))

    def _write(self, frame: bytes) -> None:
        with self._sending:
            self._send(frame)


def _status(code: int) -> object:
    if not code:
        return _SUCCESS
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: {code}"
    failed = {"status": "Failure", "reason": "NonZeroExitCode", "message": message}
    return {"metadata": {}, **failed, "details": {"causes": causes}}


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def serving(cluster: FakeCluster) -> Iterator[str]:
    """Have it answer on a port of the loopback address; its URL."""
    handler = type("Handler", (_Handler,), {"cluster": cluster})
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.005,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
