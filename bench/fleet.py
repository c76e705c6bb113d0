"""What a fleet of proxies costs an API server: `python -m bench.fleet KUBECONFIG`.

The server is any that takes the kubeconfig's credentials for writes; it gets a cluster of
services and slices (`--size`, unless it has one from a run before). Then, for every kind of client
and every number of them: all clients begin at once, and when they have everything, slices are
replaced at a steady rate. The same changes without any client are the base, which is subtracted.

CPU and memory are those of `--server-pid`, from /proc. Bytes and connections are those of the
clients' sockets, as the kernel counts them (`ss`), with TLS and all framing.

A kind of client is a command that takes a kubeconfig and a number, such as the daemon's own source
(`bench.fleetclients`, the default) or one of another commit or another proxy.
"""

import argparse
import asyncio
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec

from bench.clusters import SERIALS, Document, Size, documents, parse_size, slice_document
from bench.fleetclients import Counted
from bench.processes import cpu_seconds, memory
from kubeproxy.cluster.client.http_client import HttpClient, RateLimit
from kubeproxy.cluster.client.kubeconfig import load_kubeconfig
from kubeproxy.cluster.client.observed import ignore
from kubeproxy.cluster.client.status import decode_status

OURS = f"{sys.executable} -m bench.fleetclients"
AT_ONCE = 16
"""So many objects are written at once when the cluster is made."""
SETTLED = 2.0
"""Seconds after which a server has done what was asked of it."""
LONGEST = 600.0
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp")
_PATHS = {
    "Service": "/api/v1/namespaces/default/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
}


class Figures(msgspec.Struct, frozen=True):
    """Of one kind of client, in one number."""

    client: str
    count: int
    list_seconds: float
    """Until the last client has all objects."""
    list_cpu: float
    list_megabytes: float
    """A client."""
    connections: float
    """A client."""
    event_cpu: float
    """Microseconds of the server for one event to one client."""
    event_bytes: float
    client_cpu: float
    """Microseconds of a client for one event."""
    resident: float
    """Megabytes of the server, with all clients connected."""
    lost: int
    """Events that did not arrive."""


class Cluster:
    """Writes objects to the server."""

    def __init__(self, kubeconfig: str, size: Size) -> None:
        self._access = load_kubeconfig(kubeconfig)
        self._size = size
        self._serial = SERIALS

    async def create(self) -> None:
        """All services and slices that do not exist yet."""
        gate = asyncio.Semaphore(AT_ONCE)
        async with self._client() as client:

            async def create(document: Document) -> None:
                async with gate:
                    path = _PATHS[str(document["kind"])]
                    await _write(client, "POST", path, document)

            await asyncio.gather(*map(create, documents(self._size)))

    async def churn(self, seconds: float, rate: float) -> int:
        """Replace an endpoint of a slice so many times a second; how many changes that were."""
        changes = int(seconds * rate)
        began = time.monotonic()
        async with self._client() as client:
            for number in range(changes):
                await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
                self._serial -= 1
                index = number * 7919 % self._size.services
                serials = [self._serial, *self._size.serials(index)[1:]]
                path = f"{_PATHS['EndpointSlice']}/service-{index}-abcd0"
                await _write(client, "PUT", path, slice_document(index, 0, serials))
        return changes

    def _client(self) -> HttpClient:
        return HttpClient(self._access, RateLimit(-1), os.environ, ignore)


async def _write(client: HttpClient, method: str, path: str, document: Document) -> None:
    async with client.write(method, path, written(document), "application/json") as response:
        body = bytes(await response.read_all())
    if response.status >= HTTPStatus.BAD_REQUEST and response.status != HTTPStatus.CONFLICT:
        raise RuntimeError(f"the server refused {path}: {decode_status(body, response.status)}")


def written(document: Document) -> bytes:
    """As a client writes it: without what the server fills in."""
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    kept = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    spec = document.get("spec")
    if isinstance(spec, dict):  # the server chooses addresses
        spec = {k: v for k, v in spec.items() if k not in ("clusterIP", "clusterIPs")}
        return msgspec.json.encode(document | {"metadata": kept, "spec": spec})
    return msgspec.json.encode(document | {"metadata": kept})


class Fleet:
    """The processes of so many clients."""

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self._processes = processes
        self.pids = {process.pid for process in processes}

    def start(self) -> None:
        """Let all clients connect."""
        for process in self._processes:
            _say(process)

    def count(self) -> Counted:
        """What all of them have received."""
        counted = [self._ask(process) for process in self._processes]
        return Counted(sum(each.synced for each in counted), sum(each.events for each in counted))

    def wait_synced(self, count: int) -> None:
        """Wait until every client has all objects."""
        deadline = time.monotonic() + LONGEST
        while (synced := self.count().synced) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{synced} of {count} clients have all objects")
            time.sleep(0.01)

    def cpu(self) -> float:
        """CPU seconds of the clients."""
        return sum(map(cpu_seconds, self.pids))

    def _ask(self, process: subprocess.Popen[bytes]) -> Counted:
        _say(process)
        assert process.stdout is not None
        return msgspec.json.decode(process.stdout.readline(), type=Counted)


def _say(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


@contextmanager
def fleet(command: str, kubeconfig: str, count: int, processes: int) -> Iterator[Fleet]:
    """So many clients in so many processes, which end with the context."""
    started = []
    for number in range(min(processes, count)):
        share = count // processes + (number < count % processes)
        arguments = [*shlex.split(command), kubeconfig, str(share)]
        started.append(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    try:
        yield Fleet(started)
    finally:
        for process in started:
            process.kill()
            process.communicate()


class Sockets(msgspec.Struct, frozen=True):
    """The connections of some processes: how many, and the bytes that they received."""

    count: int
    received: int


def parse_sockets(text: str, pids: set[int]) -> Sockets:
    """Out of what `ss --tcp --info --processes --oneline` prints."""
    count = received = 0
    for line in text.splitlines():
        owner = re.search(r"pid=(\d+)", line)
        if owner is not None and int(owner[1]) in pids:
            count += 1
            found = re.search(r"bytes_received:(\d+)", line)
            received += int(found[1]) if found is not None else 0
    return Sockets(count, received)


def sockets(pids: set[int]) -> Sockets:
    """The established connections of these processes now."""
    command = ["ss", "--tcp", "--info", "--processes", "--oneline", "--no-header"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return parse_sockets(done.stdout, pids)


class Measurement:
    """One server, one cluster; figures of one kind and number of clients at a time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._cluster = Cluster(options.kubeconfig, options.size)
        self._base = 0.0

    def prepare(self) -> None:
        """Create the cluster, and find out what changes cost without a client."""
        asyncio.run(self._cluster.create())
        time.sleep(SETTLED)
        before = self._server_cpu()
        changes = self._churn()
        self._base = (self._server_cpu() - before) / changes

    def figures(self, name: str, command: str, count: int) -> Figures:
        """All figures of so many clients."""
        options = self._options
        with fleet(command, options.kubeconfig, count, options.processes) as clients:
            time.sleep(SETTLED)
            cpu, began = self._server_cpu(), time.monotonic()
            clients.start()
            clients.wait_synced(count)
            seconds = time.monotonic() - began
            time.sleep(SETTLED)
            list_cpu = self._server_cpu() - cpu
            first, received = sockets(clients.pids), clients.count().events
            cpu, used = self._server_cpu(), clients.cpu()
            changes = self._churn()
            churn_cpu = self._server_cpu() - cpu - self._base * changes
            last, events = sockets(clients.pids), changes * count
            return Figures(
                client=name,
                count=count,
                list_seconds=seconds,
                list_cpu=list_cpu,
                list_megabytes=first.received / count / 1e6,
                connections=last.count / count,
                event_cpu=churn_cpu / events * 1e6,
                event_bytes=(last.received - first.received) / events,
                client_cpu=(clients.cpu() - used) / events * 1e6,
                resident=memory(options.server_pid).resident if options.server_pid else 0.0,
                lost=events - (clients.count().events - received),
            )

    def _churn(self) -> int:
        changes = asyncio.run(self._cluster.churn(self._options.seconds, self._options.rate))
        time.sleep(SETTLED)
        return changes

    def _server_cpu(self) -> float:
        pid = self._options.server_pid
        return cpu_seconds(pid) if pid else 0.0


COLUMNS = (
    ("clients", "count", "{:,.0f}"),
    ("first list for all, s", "list_seconds", "{:.2f}"),
    ("server CPU for it, s", "list_cpu", "{:.2f}"),
    ("MB a client", "list_megabytes", "{:.2f}"),
    ("connections a client", "connections", "{:.0f}"),
    ("server CPU an event and client, us", "event_cpu", "{:.1f}"),
    ("bytes an event and client", "event_bytes", "{:,.0f}"),
    ("client CPU an event, us", "client_cpu", "{:.0f}"),
    ("server memory, MB", "resident", "{:.0f}"),
)


def table(figures: Sequence[Figures]) -> str:
    """The medians of all runs, as Markdown."""
    lines = [
        "| | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "|---|" + "---:|" * len(COLUMNS),
    ]
    for kind in dict.fromkeys((each.client, each.count) for each in figures):
        same = [each for each in figures if (each.client, each.count) == kind]
        cells = [
            form.format(statistics.median(getattr(each, field) for each in same))
            for _, field, form in COLUMNS
        ]
        lines.append(f"| {kind[0]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__)
    parser.add_argument("kubeconfig", help="of a server that may be filled with objects")
    parser.add_argument("--size", type=parse_size, default=Size(1000, 30))
    parser.add_argument("--clients", default="1,50,200", help="how many, in turn")
    parser.add_argument(
        "--client",
        action="append",
        metavar="NAME=COMMAND",
        help="a kind of client; may be given several times, which take turns",
    )
    parser.add_argument("--processes", type=int, default=2, help="that the clients share")
    parser.add_argument("--rate", type=float, default=10.0, help="changes a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of changes")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--server-pid", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a file for the figures of every run, as JSON")
    return parser


def main(arguments: Sequence[str]) -> None:
    """Measure, and print the table."""
    options = _parser().parse_args(arguments)
    kinds = [each.partition("=") for each in options.client or [f"kubeproxy={OURS}"]]
    measurement = Measurement(options)
    measurement.prepare()
    found = []
    for _ in range(options.runs):
        for count in map(int, options.clients.split(",")):
            for name, _, command in kinds:
                figures = measurement.figures(name, command, count)
                print(json.dumps(msgspec.to_builtins(figures)), file=sys.stderr, flush=True)
                found.append(figures)
    if options.output is not None:
        options.output.write_bytes(msgspec.json.encode(found))
    print(table(found))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    main(sys.argv[1:])
