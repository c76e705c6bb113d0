"""Health as load balancers meet it: the daemon in kestrel's namespace, asked over the wire."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import ETP_LOCAL, Address, deploy
from lab.documents import in_family, kestrel, service_cidr
from lab.modes import only
from lab.stage import Lab
from world import Document

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")

NODE, SECOND = "198.51.100.10", "198.51.100.77"
HEALTH_PORT = 10256
FLAGS = ("--iptables-sync-period=1s",)
Reply = tuple[int, dict[str, object]]
NO_ANSWER: Reply = (0, {})


def ask(lab: Lab, address: str, port: int, path: str = "/healthz", source: str = "X") -> Reply:
    """Status and body that a client gets; NO_ANSWER when it is refused or dropped."""
    with lab.network.namespaces[source].entered():
        try:
            client = socket.create_connection((address, port), timeout=10)
        except ConnectionError:
            return NO_ANSWER
    with client, contextlib.suppress(ConnectionError):
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        head, _, body = read_all(client).partition(b"\r\n\r\n")
        if head:
            return int(head.split()[1]), json.loads(body)
    return NO_ANSWER


def read_all(client: socket.socket) -> bytes:
    """Until the end; a connection that is dropped ends, too."""
    out = b""
    with contextlib.suppress(ConnectionResetError):
        while got := client.recv(1 << 16):
            out += got
    return out


def wait(right: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not right():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def wait_count(lab: Lab, address: str, port: int, expected: tuple[int, int]) -> None:
    def right() -> bool:
        status, body = ask(lab, address, port)
        return (status, body.get("localEndpoints", 0)) == expected

    wait(right, f"{address} {port} does not get to {expected}")


def checked(name: str, number: int, endpoints: str, port: int) -> list[Document]:
    """A Service with a health-check port, in both families."""
    spec = {**ETP_LOCAL, "healthCheckNodePort": port}
    return deploy(name, Address(number, balanced=True), endpoints, spec=spec)


def ipv4_only(documents: Iterable[Document]) -> list[Document]:
    """Without the slices of IPv6."""
    return [each for each in documents if each.get("addressType") != "IPv6"]


@pytest.mark.parametrize("family", Family)
def test_the_pages_of_a_healthy_node(lab: Lab, family: Family) -> None:
    lab.run(*FLAGS, documents=checked("cart", 21, "L1", 32001))
    address = in_family(NODE, family)
    status, body = ask(lab, address, HEALTH_PORT)
    assert status == 200
    assert [*body] == ["lastUpdated", "currentTime", "nodeEligible", "healthy", "status"]
    status, body = ask(lab, address, HEALTH_PORT, "/livez")
    assert status == 200
    assert [*body] == ["lastUpdated", "currentTime", "healthy", "status"]
    assert [*body["status"]] == ["IPv4", "IPv6"]  # type: ignore[misc]  # an object of JSON


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}}, id="tainted"
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-11-16T00:00:00Z"}}, id="being-deleted"
        ),
    ],
)
def test_a_node_that_is_about_to_go(lab: Lab, change: dict[str, Document]) -> None:
    documents = checked("cart", 21, "L1", 32001)
    lab.run(*FLAGS, documents=documents)
    node = kestrel()
    for field, more in change.items():
        node[field] = {**node[field], **more}  # type: ignore[dict-item]  # an object of JSON
    lab._programmer.put((node, service_cidr(), *documents))
    wait(lambda: ask(lab, NODE, HEALTH_PORT)[0] == 503, "the node stays eligible")
    _, body = ask(lab, NODE, HEALTH_PORT)
    assert (body["healthy"], body["nodeEligible"]) == (True, False)
    assert ask(lab, NODE, HEALTH_PORT, "/livez")[0] == 200
    wait_count(lab, NODE, 32001, (200, 1))
    lab.put(*documents)
    wait(lambda: ask(lab, NODE, HEALTH_PORT)[0] == 200, "the node does not come back")


@contextlib.contextmanager
def table_held_by_another(lab: Lab) -> Iterator[None]:
    """The kernel refuses our IPv4 transactions, because another process owns our table."""
    script = "delete table ip kube-proxy; add table ip kube-proxy { flags owner; }\n"
    with lab.network.node.entered():
        holder = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert holder.stdin is not None
    try:
        holder.stdin.write(script.encode())
        holder.stdin.flush()
        yield
    finally:
        holder.stdin.close()
        holder.wait(10)


def test_a_family_that_cannot_be_programmed(lab: Lab) -> None:
    documents = checked("cart", 21, "L1", 32001)
    lab.run(*FLAGS, documents=documents)
    wait_count(lab, NODE, 32001, (200, 1))
    with table_held_by_another(lab):
        wait(lambda: "owner" in lab.rules(), "the table has no owner")
        # A put would wait in vain.
        lab.daemon.write((kestrel(), service_cidr(), *checked("cart", 21, "L1 L2", 32001)))
        wait(lambda: ask(lab, NODE, HEALTH_PORT)[0] == 503, "the health port does not say so")
        _, body = ask(lab, NODE, HEALTH_PORT)
        status = body["status"]
        assert isinstance(status, dict)
        assert {name: each["healthy"] for name, each in status.items()} == {
            "IPv4": False,
            "IPv6": True,
        }
        assert ask(lab, NODE, HEALTH_PORT, "/livez")[0] == 503
        wait_count(lab, NODE, 32001, (503, 1))  # the count of the last good sync
    wait(lambda: ask(lab, NODE, HEALTH_PORT)[0] == 200, "it does not recover")
    wait_count(lab, NODE, 32001, (200, 2))
    lab.put(*documents)


def test_health_check_ports_follow_their_services(lab: Lab) -> None:
    both = {family: in_family(NODE, family) for family in Family}
    lab.run(*FLAGS, documents=checked("cart", 21, "L1 L2 R1 L3:draining", 32001))
    for address in both.values():
        wait_count(lab, address, 32001, (200, 2))
    assert ask(lab, SECOND, 32001) == NO_ANSWER  # nftables mode serves node ports on the primary
    lab.put(*ipv4_only(checked("cart", 21, "L1", 32001)))
    wait_count(lab, both[Family.IPV4], 32001, (200, 1))
    wait_count(lab, both[Family.IPV6], 32001, (503, 0))
    lab.put(*checked("cart", 21, "R1", 32002), *checked("shop", 22, "L1", 32001))
    for address in both.values():
        wait_count(lab, address, 32002, (503, 0))
        wait_count(lab, address, 32001, (200, 1))
    lab.put()
    for address in both.values():
        wait(lambda at=address: ask(lab, at, 32001) == NO_ANSWER, "the port stays open")  # type: ignore[misc]  # mypy cannot infer a lambda with a default


def test_health_checks_without_a_health_port_count_alone(lab: Lab) -> None:
    lab.run(*FLAGS, "--healthz-port=0", documents=checked("cart", 21, "L1", 32001))
    wait_count(lab, NODE, 32001, (200, 1))
    assert ask(lab, NODE, HEALTH_PORT) == NO_ANSWER


def test_with_all_addresses_the_ports_are_on_all(lab: Lab) -> None:
    flags = ("--nodeport-addresses=0.0.0.0/0,::/0",)
    lab.run(*FLAGS, *flags, documents=checked("cart", 21, "L1", 32001))
    for family in Family:
        for address in (NODE, SECOND):
            wait_count(lab, in_family(address, family), 32001, (200, 1))


def test_a_port_in_use_leaves_the_others_alone(lab: Lab) -> None:
    lab.run(*FLAGS)
    with lab.network.node.entered():
        taken = socket.create_server((NODE, 32001))
    with taken:
        lab.put(*checked("cart", 21, "L1", 32001), *checked("shop", 22, "L2", 32002))
        for family in Family:
            wait_count(lab, in_family(NODE, family), 32002, (200, 1))
        wait_count(lab, in_family(NODE, Family.IPV6), 32001, (200, 1))
        error = f"listen tcp4 {NODE}:32001: bind: address already in use"
        line = f'"Failed to start healthcheck" err="{error}" node="kestrel" service="mall/cart"'
        assert f"{line} port=32001" in lab._programmer.said()
    lab.put(*checked("cart", 21, "L1 L2", 32001), *checked("shop", 22, "L1", 32002))
    wait_count(lab, NODE, 32001, (200, 2))


def test_300_ports_at_once(lab: Lab) -> None:
    lab.run(*FLAGS)
    ports = range(32100, 32400)
    documents = [
        document
        for number, port in enumerate(ports)
        for document in ipv4_only(checked(f"s{number}", number % 200 + 30, "L1", port))
    ]
    lab.put(*documents)
    wait_count(lab, NODE, ports[-1], (200, 1))
    with lab.network.namespaces["X"].entered():
        clients = [socket.create_connection((NODE, port), timeout=10) for port in ports]
    for client in clients:
        with client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.0 200 OK")
    assert ask(lab, in_family(NODE, Family.IPV6), ports[-1])[0] == 503
    lab.put()
    wait(lambda: ask(lab, NODE, ports[-1]) == NO_ANSWER, "the ports stay open")


def test_rude_clients_do_not_block_other_clients_or_syncs(lab: Lab) -> None:
    lab.run(*FLAGS, documents=checked("cart", 21, "L1", 32001))
    wait_count(lab, NODE, 32001, (200, 1))
    with contextlib.ExitStack() as held:
        with lab.network.namespaces["X"].entered():
            for _ in range(1100):  # more than may be
                idle = held.enter_context(socket.create_connection((NODE, HEALTH_PORT)))
                with contextlib.suppress(OSError):
                    idle.sendall(os.urandom(64).replace(b"\n", b"."))
            probes = [
                held.enter_context(socket.create_connection((NODE, HEALTH_PORT)))
                for _ in range(500)
            ]
        for probe in probes:
            probe.settimeout(20)
            probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        lab.put(*checked("cart", 21, "L1 L2", 32001))
        wait_count(lab, NODE, 32001, (200, 2))
        assert {read_all(probe)[:12] for probe in probes} == {b"HTTP/1.0 200"}
