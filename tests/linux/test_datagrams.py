"""Many datagrams at once are what one recv after the other would give."""

import errno
import socket
from collections.abc import Iterator
from struct import pack

import pytest

from kubeproxy.linux.nfnetlink import Datagrams


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        yield here, there


def message(body: bytes) -> bytes:
    """As netlink's begin: with their own length."""
    return pack("=I", 4 + len(body)) + body


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(0, id="none"),
        pytest.param(1, id="one"),
        pytest.param(3, id="as-many-as-there-is-room-for"),
        pytest.param(7, id="more-than-there-is-room-for"),
    ],
)
def test_all_that_wait_are_read(link: tuple[socket.socket, socket.socket], count: int) -> None:
    here, there = link
    sent = [message(bytes([number]) * number) for number in range(count)]
    for each in sent:
        there.send(each)
    room = Datagrams(count=3, size=16)
    assert sent == room.read(here)
    assert room.read(here) == []
    there.send(message(b"once more"))
    assert [message(b"once more")] == room.read(here)


def test_one_that_is_too_long_is_an_error(link: tuple[socket.socket, socket.socket]) -> None:
    here, there = link
    there.send(message(bytes(13)))
    with pytest.raises(OSError, match="longer than expected") as caught:
        Datagrams(count=3, size=16).read(here)
    assert caught.value.errno == errno.EMSGSIZE


def test_what_the_kernel_says_against_it_is_an_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
        with pytest.raises(OSError, match="not connected") as caught:
            Datagrams(count=3, size=16).read(link)
        assert caught.value.errno == errno.ENOTCONN
