import os
import socket
from collections.abc import Iterator

import pytest

from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.socketuser import Address, socket_request, socket_user, user_in

NOBODY = 65534


@pytest.fixture(params=["127.0.0.1", "::1", "::"])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    both = request.param == "::"
    with socket.create_server((request.param, 0), family=family, dualstack_ipv6=both) as made:
        yield made


def accepted(server: socket.socket) -> socket.socket:
    server.settimeout(20)
    return server.accept()[0]


def ends(connection: socket.socket) -> tuple[Address, Address]:
    """Of the client, as the server sees them."""
    return connection.getpeername()[:2], connection.getsockname()[:2]


def test_our_own_connection_is_ours(server: socket.socket) -> None:
    host, port = server.getsockname()[:2]
    address = ("127.0.0.1" if host == "::" else host, port)
    with socket.create_connection(address), accepted(server) as connection:
        assert os.geteuid() == socket_user(*ends(connection))


def test_another_users_connection_is_that_users() -> None:
    """Only root can be another user; everybody else is itself."""
    before = os.geteuid()
    user = NOBODY if before == 0 else before
    with socket.create_server(("127.0.0.1", 0)) as server:
        os.seteuid(user)
        try:
            client = socket.socket()
        finally:
            os.seteuid(before)
        client.connect(server.getsockname())
        with client, accepted(server) as connection:
            assert user == socket_user(*ends(connection))


def test_a_connection_that_there_is_not_is_nobodys() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        assert socket_user(address, ("127.0.0.1", 1)) is None
    assert socket_user(address, ("127.0.0.1", 1)) is None


@pytest.mark.parametrize(
    ("own", "other", "family", "ends"),
    [
        pytest.param(
            ("127.0.0.1", 40000),
            ("127.0.0.2", 10249),
            b"\x02",
            bytes([127, 0, 0, 1]) + bytes(12) + bytes([127, 0, 0, 2]) + bytes(12),
            id="ipv4",
        ),
        pytest.param(
            ("::1", 40000),
            ("::2", 10249),
            b"\x0a",
            bytes(15) + b"\x01" + bytes(15) + b"\x02",
            id="ipv6",
        ),
    ],
)
def test_a_socket_is_named_by_its_ends(
    own: tuple[str, int], other: tuple[str, int], family: bytes, ends: bytes
) -> None:
    asked = socket_request(own, other)
    assert (asked.type, asked.flags) == (20, 5)
    head = family + b"\x06\0\0\xff\xff\xff\xff"
    assert head + b"\x9c\x40\x28\x09" + ends + bytes(4) + b"\xff" * 8 == asked.payload


@pytest.mark.parametrize(
    ("state", "user"),
    [pytest.param(1, 1000, id="connected"), pytest.param(10, None, id="listens")],
)
def test_the_answer_has_the_user_after_state_ends_and_counts(state: int, user: int | None) -> None:
    payload = bytes([2, state]) + bytes(62) + b"\xe8\x03\0\0" + b"\xff" * 4
    assert user == user_in(Message(20, 0, 1, payload))
