"""Tracked flows of a real kernel: found, judged, and forgotten."""

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.engine.flows import stale
from kubeproxy.linux.conntrack import delete, udp_flows
from kubeproxy.linux.netlink.attribute import attribute, nested
from kubeproxy.linux.netlink.conntrack import IPCTNL_MSG_CT_NEW
from kubeproxy.linux.netlink.message import NLM_F_CREATE, NLM_F_EXCL
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, request
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName

LOOPBACK = {Family.IPV4: "127.0.0.1", Family.IPV6: "::1"}
SERVICE = {Family.IPV4: "127.96.0.10", Family.IPV6: "fd96::10"}
NFT = {Family.IPV4: "ip", Family.IPV6: "ip6"}
PORT = 53
TABLE = "conntrack-test"


def entry(family: Family, *ports: int) -> Entry:
    """The service port, served on these ports of the loopback."""
    return Entry(
        ServicePortName("ns", "dns", "dns", Protocol.UDP),
        (Frontend(FrontendKind.CLUSTER_IP, SERVICE[family], PORT),),
        serving=tuple(Backend(LOOPBACK[family], port) for port in ports),
    )


class Cluster:
    """A UDP service on the loopback, two endpoints, and a client that keeps its source port."""

    def __init__(self, family: Family, sockets: ExitStack) -> None:
        self.family = family
        self._client, *self._endpoints = (
            sockets.enter_context(socket.socket(_af(family), socket.SOCK_DGRAM)) for _ in range(3)
        )
        for each in (self._client, *self._endpoints):
            each.bind((LOOPBACK[family], 0))
            each.setblocking(False)
        self.ports = tuple(endpoint.getsockname()[1] for endpoint in self._endpoints)
        self.program(None)

    def program(self, port: int | None, more: str = "") -> None:
        """Lead the service to that port, or nowhere."""
        family, service = NFT[self.family], SERVICE[self.family]
        target = LOOPBACK[self.family] if self.family is Family.IPV4 else "[::1]"
        # Flows are tracked for as long as some rule asks for their state.
        always = "ct state invalid drop"
        rule = f"{family} daddr {service} udp dport {PORT} dnat to {target}:{port}"
        nft(
            f"""
            add table {family} {TABLE}
            delete table {family} {TABLE}
            table {family} {TABLE} {{
                chain early {{
                    type filter hook output priority raw
                    {more}
                }}
                chain nat {{
                    type nat hook output priority -100
                    {always}
                    {rule if port else ""}
                }}
            }}"""
        )

    def reached(self) -> int | None:
        """Which endpoint a datagram to the service arrives at; None when it is lost."""
        self._client.sendto(b"?", (SERVICE[self.family], PORT))
        for number, endpoint in enumerate(self._endpoints):
            try:
                endpoint.recv(1)  # on the loopback it is there as soon as it is sent
            except BlockingIOError:
                continue
            return number
        return None

    def clean_up(self, entries: tuple[Entry, ...], former: tuple[Entry, ...] = ()) -> int:
        return delete(stale(udp_flows(self.family), entries, former))


def _af(family: Family) -> int:
    return socket.AF_INET if family is Family.IPV4 else socket.AF_INET6


def nft(script: str) -> None:
    subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)


@pytest.fixture(params=Family, ids=lambda family: family.value)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    family: Family = request.param
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if family is Family.IPV6:
        subprocess.run(
            ["ip", "addr", "replace", SERVICE[family], "dev", "lo", "nodad"], check=True
        )
    with ExitStack() as sockets:
        yield Cluster(family, sockets)
    nft(f"delete table {NFT[family]} {TABLE}")
    subprocess.run(["conntrack", "-F"], check=True, stderr=subprocess.DEVNULL)


def test_after_a_change_the_client_reaches_the_new_endpoint(cluster: Cluster) -> None:
    first, second = cluster.ports
    cluster.program(first)
    assert cluster.reached() == 0
    cluster.program(second)
    assert cluster.reached() == 0  # why there is a clean-up
    assert cluster.clean_up((entry(cluster.family, second),)) == 1
    assert cluster.reached() == 1
    assert cluster.clean_up((entry(cluster.family, second),)) == 0


def test_after_scaling_to_zero_and_back_the_client_reaches_the_new_endpoint(
    cluster: Cluster,
) -> None:
    first, second = cluster.ports
    cluster.program(first)
    assert cluster.reached() == 0
    cluster.program(None)
    assert cluster.clean_up((entry(cluster.family),)) == 1
    assert cluster.reached() is None  # and this makes a flow that goes nowhere
    cluster.program(second)
    assert cluster.clean_up((entry(cluster.family, second),)) == 1
    assert cluster.reached() == 1


def test_after_a_service_is_deleted_its_endpoint_is_left_alone(cluster: Cluster) -> None:
    first, second = cluster.ports
    cluster.program(first)
    assert cluster.reached() == 0
    cluster.program(None)
    assert cluster.clean_up((), (entry(cluster.family, first),)) == 1
    assert cluster.reached() is None
    cluster.program(second)
    assert cluster.clean_up((entry(cluster.family, second),)) == 1
    assert cluster.reached() == 1


def test_a_flow_in_a_zone_is_found_and_forgotten(cluster: Cluster) -> None:
    first, second = cluster.ports
    cluster.program(first, "ct zone set 7")
    assert cluster.reached() == 0
    cluster.program(second, "ct zone set 7")
    assert cluster.clean_up((entry(cluster.family, second),)) == 1
    assert cluster.reached() == 1


def test_a_flow_that_was_replaced_since_the_listing_is_not_deleted(cluster: Cluster) -> None:
    first, second = cluster.ports
    cluster.program(first)
    assert cluster.reached() == 0
    listed = list(udp_flows(cluster.family))
    assert delete(listed) == 1
    cluster.program(second)
    assert cluster.reached() == 1
    assert delete(listed) == 0
    assert len(list(udp_flows(cluster.family))) == 1


def test_tcp_is_not_even_listed(cluster: Cluster) -> None:
    cluster.program(cluster.ports[0])
    with socket.create_server((LOOPBACK[cluster.family], 0), family=_af(cluster.family)) as server:
        socket.create_connection(server.getsockname()[:2]).close()
    cluster.reached()
    family = cluster.family.value.lower()
    tracked = subprocess.run(["conntrack", "-L", "-f", family], capture_output=True, check=True)
    assert b"tcp" in tracked.stdout
    assert len(list(udp_flows(cluster.family))) == 1


def many(count: int) -> Iterator[bytes]:
    """Requests for flows of as many clients to the service, to the endpoints 1.0.0.0 to .3."""
    for number in range(count):
        client = pack("10.0.0.0")[:2] + struct.pack("!HH", number >> 10, 1024 + (number & 1023))
        service = pack(SERVICE[Family.IPV4]) + struct.pack("!H", PORT)
        endpoint = bytes([1, 0, 0, number & 3]) + struct.pack("!H", 8053)
        payload = b"".join(
            (
                _direction(1, client, service),
                _direction(2, endpoint, client),
                attribute(7, struct.pack("!I", 600)),
                attribute(3, struct.pack("!I", 0x2 | 0x8)),  # answered, confirmed
            )
        )
        yield request(IPCTNL_MSG_CT_NEW, NFPROTO_IPV4, payload, NLM_F_CREATE | NLM_F_EXCL)


def _direction(kind: int, source: bytes, destination: bytes) -> bytes:
    return nested(
        kind,
        nested(1, attribute(1, source[:4]), attribute(2, destination[:4])),
        nested(
            2,
            attribute(1, bytes([Protocol.UDP])),
            attribute(2, source[4:]),
            attribute(3, destination[4:]),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [Family.IPV4], indirect=True)
def test_a_hundred_thousand_flows(cluster: Cluster) -> None:
    requests = many(100_000)
    with Nfnetlink() as link:
        while chunk := list(islice(requests, 500)):
            link.send(b"".join(chunk), "cannot make flows")
            assert list(link.received()) == []
    assert len({flow.entry for flow in udp_flows(Family.IPV4)}) == 100_000
    serving = tuple(Backend(f"1.0.0.{number}", 8053) for number in (0, 2))
    served = msgspec.structs.replace(entry(Family.IPV4), serving=serving)
    assert cluster.clean_up((served,)) == 50_000
    left = {flow.responder[:4] for flow in udp_flows(Family.IPV4)}
    assert left == {pack("1.0.0.0"), pack("1.0.0.2")}


def test_without_the_capability_the_error_says_what_is_missing() -> None:
    # In a user namespace below, a process has no power over this network namespace.
    script = (
        "from kubeproxy.base.inet import Family; from kubeproxy.linux.conntrack import udp_flows; "
        "list(udp_flows(Family.IPV4))"
    )
    ran = subprocess.run(
        ["unshare", "-U", sys.executable, "-c", script], stderr=subprocess.PIPE, check=False
    )
    assert b"cannot list the tracked IPv4 UDP flows" in ran.stderr
    assert b"the process needs CAP_NET_ADMIN" in ran.stderr
