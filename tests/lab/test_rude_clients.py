"""Whoever takes all it can get, or nothing: what others get meanwhile, over the wire."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator

from lab.deploy import Address, Port, deploy
from lab.documents import kestrel, service_cidr
from lab.modes import only
from lab.stage import Lab
from lab.test_health import FLAGS, HEALTH_PORT, NODE, ask, checked, wait_count
from world import Document

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")

MANY = 1100
"""More connections than a server has places."""
LOCAL_NODE_PORTS = (
    "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true",
    "--nodeport-addresses=primary,localhost",
)
REQUESTS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 400


@contextlib.contextmanager
def hoarders(lab: Lab, *ports: int) -> Iterator[None]:
    """Outside, a client with a crowd of connections to each port that asks and never reads."""
    with contextlib.ExitStack() as held:
        for port in ports:
            with lab.network.namespaces["X"].entered():
                for _ in range(MANY):
                    client = held.enter_context(socket.socket())
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    client.connect((NODE, port))
                    client.setblocking(False)
                    with contextlib.suppress(OSError):  # it may have lost its place already
                        client.send(REQUESTS)
        yield


def test_clients_that_do_not_read_leave_the_health_ports_up(lab: Lab) -> None:
    documents = [*checked("cart", 21, "L1", 32001), *checked("shop", 22, "L1", 32002)]
    lab.run(*FLAGS, documents=documents)
    for port in (32001, 32002):
        wait_count(lab, NODE, port, (200, 1))
    probes = [
        *((client, port) for client in ("kestrel", "R1") for port in (HEALTH_PORT, 32001, 32002)),
        ("X", 32002),
    ]
    with hoarders(lab, HEALTH_PORT, 32001):
        for _ in range(10):
            failed = [each for each in probes if ask(lab, NODE, each[1], source=each[0])[0] != 200]
            assert failed == []
    assert "Too many connections" in lab._programmer.said()


def local_node_port(endpoints: str) -> list[Document]:
    spec: Document = {"type": "NodePort", "sessionAffinity": "ClientIP"}
    return deploy("cart", Address(21), endpoints, [Port(node_port=31090)], spec)


def test_connections_to_a_local_node_port_leave_descriptors_for_syncs(lab: Lab) -> None:
    """With few descriptors left for all, syncs and probes go on, and the log says why not more."""
    lab.run(*FLAGS, *LOCAL_NODE_PORTS, documents=local_node_port("L1"))
    descriptors = 256
    process = lab.daemon._process
    assert process is not None
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    with contextlib.ExitStack() as held:
        with lab.network.node.entered():
            for _ in range(descriptors):
                with contextlib.suppress(ConnectionResetError):
                    held.enter_context(socket.create_connection(("127.0.0.1", 31090)))
        assert ask(lab, NODE, HEALTH_PORT)[0] == 200
        for endpoints in ("L1 L2", "L2"):
            lab.put(*local_node_port(endpoints))
        said = "Too many connections to a local node port, new ones are reset"
        assert lab.daemon.said().count(said) == 1
    lab.stop()


def test_a_log_without_a_reader_stops_nothing(lab: Lab) -> None:
    """A pipe that was full before the first line; the process ends when it is signalled."""
    lab.run(*FLAGS, documents=checked("cart", 21, "L1", 32001))
    assert lab._flags is not None
    with full_pipe() as into:
        lab.daemon.stop()
        lab.daemon.launch(lab._flags, into)
        wait_count(lab, NODE, 32001, (200, 1))
        documents = (kestrel(), service_cidr(), *checked("cart", 21, "L1 L2", 32001))
        lab.daemon.write(documents)  # a put would look into the log
        wait_count(lab, NODE, 32001, (200, 2))
        lab.stop()


@contextlib.contextmanager
def full_pipe() -> Iterator[int]:
    """The end of a pipe for writing, that takes nothing more."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(into, bytes(1 << 16))
    os.set_blocking(into, True)
    try:
        yield into
    finally:
        os.close(out)
        os.close(into)
