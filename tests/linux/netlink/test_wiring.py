import struct

import pytest

from kubeproxy.linux.netlink.message import attributes
from kubeproxy.linux.netlink.wiring import (
    default_route_request,
    new_address_request,
    new_pair_request,
    up_request,
)


def test_a_pair_has_its_other_end_elsewhere() -> None:
    message = new_pair_request("client", "eth0", 7)
    found = attributes(message.payload[16:])
    about = attributes(found[18])
    peer = attributes(about[2])[1]
    assert (message.type, found[3], about[1]) == (16, b"client\0", b"veth\0")
    assert attributes(peer[16:]) == {3: b"eth0\0", 28: struct.pack("=I", 7)}


@pytest.mark.parametrize(
    ("address", "length", "payload"),
    [
        ("192.0.2.2", 24, "02180200 05000000 08000200 c0000202 08000100 c0000202"),
        (
            "2001:db8::2",
            64,
            "0a400200 05000000"
            + "".join(f"1400{n}00 20010db8000000000000000000000002" for n in ("02", "01")),
        ),
    ],
)
def test_an_address_with_its_network(address: str, length: int, payload: str) -> None:
    assert bytes.fromhex(payload) == new_address_request(5, address, length).payload


def test_a_device_goes_up() -> None:
    expected = bytes.fromhex("00000000 05000000 01000000 01000000")
    assert expected == up_request(5).payload


def test_a_default_route() -> None:
    expected = bytes.fromhex("02000000 fe040001 00000000 08000500 c0000201")
    assert expected == default_route_request("192.0.2.1").payload
