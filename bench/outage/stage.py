"""A cluster with one service, a proxy as a whole daemon, and all that can happen to them.

The API server runs in the event loop of this process: nothing here may block for long.
"""

import asyncio
import contextlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from bench.apiprocess import Listening
from bench.cluster_server import kubeconfig
from bench.clusters import (
    ENDPOINT_PORT,
    NODE_ADDRESS,
    SERVICE_PORT,
    Document,
    cluster_ip,
    endpoint_address,
    node_document,
    service_cidr_document,
    service_document,
    slice_document,
)
from bench.outage.figures import Effort, Seen
from bench.outage.network import NODE_ADDRESS_6, Network
from bench.proxies import Proxy, Running
from fakes.apiserver import FakeApiServer
from fakes.certs import server_tls
from lab.namespaces import Namespace

NODE_PORT = 30080
SERVICE_6 = "fd12::1"
"""The cluster IP of the other family, of a service that has both."""
ON_ONE_NODE, ON_ANOTHER = (1, 101), (2, 102)
"""Serial numbers of endpoints: 100 apart, they are on the same node (`bench.clusters`)."""
READY_TIMEOUT = 60.0
SETTLED = 1.0


class Program:
    """A process of ours in a namespace, which is written to and read from by lines."""

    def __init__(self, namespace: Namespace, module: str, *arguments: str) -> None:
        with namespace.entered():
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )

    async def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise RuntimeError("a program of the benchmark ended; its error stands above")
        return line.decode().strip()

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Clients:
    """The load: from a pod, from the node itself, and from outside.

    With both families, half of the clients have IPv6.
    """

    def __init__(self, network: Network, effort: Effort, *, is_dual: bool = False) -> None:
        asked = msgspec.json.encode(effort).decode()
        module = "bench.outage.clients"
        inside, outside = targets()
        self._programs = {
            "from a pod": Program(network.pod, module, *inside, asked),
            "from the node": Program(network.node, module, *inside, asked),
            "from outside": Program(network.outside, module, *outside, asked),
        }
        if is_dual:
            inside, outside = (SERVICE_6, str(SERVICE_PORT)), (NODE_ADDRESS_6, str(NODE_PORT))
            self._programs |= {
                "from a pod, IPv6": Program(network.pod, module, *inside, asked),
                "from the node, IPv6": Program(network.node, module, *inside, asked),
                "from outside, IPv6": Program(network.outside, module, *outside, asked),
            }

    async def ready(self) -> None:
        for program in self._programs.values():
            await program.line()

    async def seen(self) -> dict[str, Seen]:
        """Have them come to an end; what each has met."""
        for program in self._programs.values():
            program.write("end")
        return {
            name: msgspec.json.decode(await program.line(), type=Seen)
            for name, program in self._programs.items()
        }

    def kill(self) -> None:
        for program in self._programs.values():
            program.kill()


class Stage:
    """The cluster: its endpoints, and the proxy on its node."""

    def __init__(
        self,
        proxy: Proxy,
        network: Network,
        server: FakeApiServer,
        place: Path,
        *,
        is_dual: bool = False,
    ) -> None:
        self.directory, self.kubeconfig = place, place / "kubeconfig"
        self.endpoints: list[int] = []
        self.network = network
        self._proxy, self._server, self._is_dual = proxy, server, is_dual
        self._pods = Program(network.workers, "bench.outage.pods", str(ENDPOINT_PORT))
        self._running: Running | None = None
        self._ordering = asyncio.Lock()

    @property
    def running(self) -> Running:
        """The proxy."""
        assert self._running is not None
        return self._running

    @property
    def node(self) -> Namespace:
        """Where the proxy is."""
        return self.network.node

    async def start_pod(self, serial: int) -> None:
        """A pod listens; no slice has it yet."""
        await self._order("open", serial)

    async def end_pod(self, serial: int) -> None:
        """A pod ends: it refuses connections."""
        await self._order("close", serial)

    async def _order(self, verb: str, serial: int) -> None:
        async with self._ordering:
            for address in self._addresses(serial):
                self._pods.write(f"{verb} {address}")
                await self._pods.line()

    def _addresses(self, serial: int) -> list[str]:
        both = [endpoint_address(serial), endpoint_address_6(serial)]
        return both if self._is_dual else both[:1]

    def lose(self, serials: Iterable[int]) -> None:
        """Pods vanish without a word."""
        self.network.lose(chain.from_iterable(map(self._addresses, serials)))

    def find(self, serials: Iterable[int]) -> None:
        """They are there again."""
        self.network.find(chain.from_iterable(map(self._addresses, serials)))

    def publish(self, serials: Sequence[int]) -> None:
        """The slices have these endpoints from now on."""
        self.endpoints = list(serials)
        self._server.put(slice_document(0, 0, serials))
        if self._is_dual:
            self._server.put(slice_document_6(serials))

    def delete_tables(self) -> None:
        self.network.delete_tables()

    def start_proxy(self, changed: Mapping[str, object] = {}) -> None:
        """Start it; `changed` are settings of its mode that it did not have before."""
        section = {**self._proxy.section, **changed}
        proxy = msgspec.structs.replace(self._proxy, section=section)
        self._running = Running(proxy, self.network.node, self)

    async def stop_proxy(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._running is not None:
            await asyncio.to_thread(self._running.stop, by)

    async def served(self) -> None:
        """Wait until the proxy is at work and has nothing left to do."""
        assert self._running is not None
        inside, outside = targets()
        for namespace, target in ((self.network.pod, inside), (self.network.outside, outside)):
            deadline = time.monotonic() + READY_TIMEOUT
            while not await asyncio.to_thread(_answers, namespace, target):
                self._running.check()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no connection within {READY_TIMEOUT:.0f} s")
                await asyncio.sleep(0.05)
        await asyncio.to_thread(self._running.wait_settled, SETTLED)

    def check_proxy(self) -> None:
        """Raise when it has ended, by itself or because of others."""
        assert self._running is not None
        self._running.check()

    async def close(self, log: Path) -> None:
        """End all that was started here, and keep the proxy's log."""
        await self.stop_proxy()
        self._pods.kill()
        if self._running is not None:
            await asyncio.to_thread(shutil.copy, self._running.log, log)


@contextlib.asynccontextmanager
async def staged(proxy: Proxy, effort: Effort, log: Path) -> AsyncIterator[tuple[Stage, Clients]]:
    """A network, a cluster, the proxy at work, and clients that have begun; all new.

    In the end the proxy's log goes to a file, for those who wonder at the figures.
    """
    documents = (node_document(), service_cidr_document(), service())
    async with opened(proxy, log, documents, (*ON_ONE_NODE, *ON_ANOTHER)) as stage:
        clients = Clients(stage.network, effort)
        try:
            await clients.ready()
            yield stage, clients
        finally:
            clients.kill()


@contextlib.asynccontextmanager
async def opened(
    proxy: Proxy,
    log: Path,
    documents: Iterable[Document],
    pods: Sequence[int],
    *,
    is_dual: bool = False,
) -> AsyncIterator[Stage]:
    """All of that, but for the clients."""
    async with contextlib.AsyncExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        network = Network()
        stack.callback(network.close)
        tls, authority = server_tls(place)
        with network.node.entered():
            server = await stack.enter_async_context(FakeApiServer(tls))
        for document in documents:
            server.put(document)
        stage = Stage(proxy, network, server, place, is_dual=is_dual)
        stack.push_async_callback(stage.close, log)
        stage.kubeconfig.write_bytes(kubeconfig(Listening(server.url, str(authority.cert))))
        for serial in pods:
            await stage.start_pod(serial)
        stage.publish(pods)
        stage.start_proxy()
        await stage.served()
        yield stage


def endpoint_address_6(serial: int) -> str:
    """The other address of an endpoint."""
    return f"fd00:1::{serial:x}"


def slice_document_6(serials: Sequence[int]) -> Document:
    """The slice of the same pods with their other addresses."""
    document = slice_document(0, 1, serials)
    endpoints = document["endpoints"]
    assert isinstance(endpoints, list)
    for serial, endpoint in zip(serials, endpoints, strict=True):
        endpoint["addresses"] = [endpoint_address_6(serial)]
    return {**document, "addressType": "IPv6"}


def service() -> Document:
    """The service, with a node port."""
    document = service_document(0)
    spec = document["spec"]
    assert isinstance(spec, dict)
    ports = [{**spec["ports"][0], "nodePort": NODE_PORT}]
    policies = {"externalTrafficPolicy": "Cluster"}
    return {**document, "spec": {**spec, "type": "NodePort", "ports": ports, **policies}}


def targets() -> tuple[tuple[str, str], tuple[str, str]]:
    """What clients dial: those in the cluster, and those outside."""
    return (cluster_ip(0), str(SERVICE_PORT)), (NODE_ADDRESS, str(NODE_PORT))


def _answers(namespace: Namespace, target: tuple[str, str]) -> bool:
    with namespace.entered(), contextlib.suppress(OSError):
        socket.create_connection((target[0], int(target[1])), timeout=1).close()
        return True
    return False
