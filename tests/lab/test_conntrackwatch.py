"""New connections as the kernel reports them; those that come too fast are counted."""

import socket
import subprocess
from collections.abc import Iterator
from itertools import islice

import pytest

from kubeproxy.base.inet import Family, Protocol, pack
from kubeproxy.linux.conntrack import ConnectionWatch
from kubeproxy.linux.netlink.conntrack import Connection, connection_in, dialled
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.test_conntrack import LOOPBACK, NFT, many

EVERYTHING = 1_000_000
ECHO_REQUEST = b"\x08\x00\xf7\xff" + bytes(4)


@pytest.fixture(autouse=True)
def _tracked() -> Iterator[None]:
    """Connections are tracked for as long as some rule asks for their state."""
    script = "".join(
        f"table {each} watch-test {{ chain c {{\n"
        "type filter hook output priority filter\n"
        "ct state invalid drop\n}\n}\n"
        for each in NFT.values()
    )
    subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True)
    yield
    for each in NFT.values():
        subprocess.run(["nft", "delete", "table", each, "watch-test"], check=True)
    subprocess.run(["conntrack", "-F"], check=True, stderr=subprocess.DEVNULL)


def end(address: tuple[str, int]) -> bytes:
    return pack(address[0]) + address[1].to_bytes(2, "big")


@pytest.mark.parametrize("family", Family)
def test_a_connection_is_reported_once(family: Family) -> None:
    kind = socket.AF_INET if family is Family.IPV4 else socket.AF_INET6
    with (
        ConnectionWatch() as watch,
        socket.create_server((LOOPBACK[family], 0), family=kind) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
    ):
        client.send(b"some more packets")
        events = list(watch.events(EVERYTHING))
        here, there = end(client.getsockname()[:2]), end(server.getsockname()[:2])
    expected = Connection(Protocol.TCP, here, there, there, here)
    assert [expected] == [connection_in(event) for event in events]
    assert [(there[:-2], b"\x06", there[-2:])] == [dialled(event) for event in events]


def test_a_ping_has_no_ports() -> None:
    with ConnectionWatch() as watch:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as pinging:
            pinging.sendto(ECHO_REQUEST, ("127.0.0.1", 0))
        events = list(watch.events(EVERYTHING))
    assert [dialled(event) for event in events] == [None]


def test_what_does_not_fit_into_the_buffer_is_counted() -> None:
    with ConnectionWatch() as watch, Nfnetlink() as link:
        requests = many(20_000)
        while chunk := b"".join(islice(requests, 500)):
            link.send(chunk, "cannot make flows")
            assert list(link.received()) == []
        read = len(list(watch.events(EVERYTHING)))
        assert 0 < read < 20_000
        assert read + watch.lost == 20_000
        lost = watch.lost
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"?", ("127.0.0.1", 9))
        assert (len(list(watch.events(EVERYTHING))), watch.lost) == (1, lost)


def test_no_more_is_read_than_asked_for() -> None:
    with ConnectionWatch() as watch, Nfnetlink() as link:
        link.send(b"".join(many(10)), "cannot make flows")
        assert [len(list(watch.events(7))) for _ in range(3)] == [7, 3, 0]
