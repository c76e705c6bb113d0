import pytest

from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.sockdiag import socket_request, user_in


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
