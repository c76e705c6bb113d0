"""Virtual and real servers as bytes. What comes in was taken from a kernel (6.1)."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family, Protocol, family_of, pack, unpack
from kubeproxy.linux.netlink.attribute import attribute, nested, text
from kubeproxy.linux.netlink.ipvs import (
    PERSISTENT,
    SOURCE_PORT,
    AddReal,
    AddServer,
    Command,
    DeleteReal,
    DeleteServer,
    RealKey,
    RealServer,
    ServerKey,
    SetReal,
    SetServer,
    VirtualServer,
    body,
    command_request,
    connections_in,
    describe,
    number_in,
    number_request,
    real_in,
    reals_request,
    request,
    server_in,
    server_request,
    servers_request,
    timeouts_request,
)
from kubeproxy.linux.netlink.message import (
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    Message,
    attributes,
)

NUMBER = 28
WEB = ServerKey(Protocol.TCP, "10.96.50.1", 80)
DNS = ServerKey(Protocol.UDP, "fd00:10:96::5002", 53)
POD = RealKey("10.128.1.10", 8080)
POD6 = RealKey("fd00:128:1::11", 5353)
STICKY = VirtualServer("mh", PERSISTENT | SOURCE_PORT, 600)

NAMES_WEB = "24000100 06000100 02000000 06000200 06000000 08000300 0a603201 06000400 00500000"
NAMES_DNS = (
    "30000100 06000100 0a000000 06000200 11000000 14000300 fd000010 00960000 00000000 00005002"
    " 06000400 00350000"
)
REAL_POD = (
    "34000200 08000100 0a80010a 06000200 1f900000 08000300 00000000 08000400 {weight}000000"
    " 08000500 00000000 08000600 00000000"
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            AddServer(WEB, VirtualServer()),
            "01010000 48000100 06000100 02000000 06000200 06000000 08000300 0a603201"
            " 06000400 00500000 07000600 72720000 0c000700 00000000 ffffffff 08000800 00000000"
            " 08000900 ffffffff",
            id="add-a-server",
        ),
        pytest.param(
            SetServer(DNS, STICKY),
            "02010000 54000100 06000100 0a000000 06000200 11000000 14000300 fd000010 00960000"
            " 00000000 00005002 06000400 00350000 07000600 6d680000 0c000700 11000000 ffffffff"
            " 08000800 58020000 08000900 80000000",
            id="change-a-server-of-ipv6",
        ),
        pytest.param(DeleteServer(WEB), f"03010000 {NAMES_WEB}", id="delete-a-server"),
        pytest.param(
            AddReal(WEB, POD),
            f"05010000 {NAMES_WEB} {REAL_POD.format(weight='01')}",
            id="add-a-real-server",
        ),
        pytest.param(
            SetReal(DNS, POD6, 0),
            f"06010000 {NAMES_DNS} 40000200 14000100 fd000128 00010000 00000000 00000011"
            " 06000200 14e90000 08000300 00000000 08000400 00000000 08000500 00000000"
            " 08000600 00000000",
            id="change-a-real-server-of-ipv6",
        ),
        pytest.param(
            DeleteReal(WEB, POD),
            f"07010000 {NAMES_WEB} {REAL_POD.format(weight='00')}",
            id="delete-a-real-server",
        ),
    ],
)
def test_commands(command: Command, expected: str) -> None:
    message = Message(NUMBER, NLM_F_REQUEST, 0, bytes.fromhex(expected))
    assert message == command_request(NUMBER, command)


@pytest.mark.parametrize(
    ("message", "flags", "payload"),
    [
        pytest.param(servers_request(NUMBER), NLM_F_DUMP, "04010000", id="all-servers"),
        pytest.param(
            server_request(NUMBER, WEB), NLM_F_ACK, f"04010000 {NAMES_WEB}", id="one-server"
        ),
        pytest.param(
            reals_request(NUMBER, DNS), NLM_F_DUMP, f"08010000 {NAMES_DNS}", id="real-servers"
        ),
        pytest.param(
            timeouts_request(NUMBER, 900, 120, 300),
            NLM_F_ACK,
            "0c010000 08000400 84030000 08000500 78000000 08000600 2c010000",
            id="timeouts",
        ),
    ],
)
def test_requests(message: Message, flags: int, payload: str) -> None:
    assert Message(NUMBER, NLM_F_REQUEST | flags, 0, bytes.fromhex(payload)) == message


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (AddServer(WEB, VirtualServer()), "add the virtual server 10.96.50.1:80/TCP"),
        (DeleteServer(DNS), "delete the virtual server [fd00:10:96::5002]:53/UDP"),
        (AddReal(WEB, POD), "add the real server 10.128.1.10:8080 of 10.96.50.1:80/TCP"),
        (
            SetReal(DNS, POD6),
            "change the real server [fd00:128:1::11]:5353 of [fd00:10:96::5002]:53/UDP",
        ),
    ],
)
def test_commands_in_words(command: Command, expected: str) -> None:
    assert expected == describe(command)


OLD_STATISTICS = (
    "60000a00 08000100 {0:02x}000000 08000200 {1:02x}000000 08000300 {2:02x}000000"
    " 0c000400 {3:02x}000000 00000000 04000b00 0c000500 {4:02x}000000 00000000"
    " 08000600 00000000 08000700 00000000 08000800 00000000 08000900 00000000"
    " 08000a00 00000000"
)
NEW_STATISTICS = (
    "a0000c00 0c000100 {0:02x}000000 01000000 04000b00 0c000200 {1:02x}000000 00000000"
    " 04000b00 0c000300 {2:02x}000000 00000000 04000b00 0c000400 {3:02x}000000 00000000"
    " 04000b00 0c000500 {4:02x}000000 00000000 04000b00 0c000600 00000000 00000000"
    " 04000b00 0c000700 00000000 00000000 04000b00 0c000800 00000000 00000000"
    " 04000b00 0c000900 00000000 00000000 04000b00 0c000a00 00000000 00000000"
)
COUNTED = (3, 14, 15, 9, 26)
BOTH = OLD_STATISTICS.format(*COUNTED) + NEW_STATISTICS.format(*COUNTED)
CONNECTIONS = 3 + (1 << 32)

WEB_TOLD = (
    "01010000 54010100 06000100 02000000 06000200 06000000 14000300 0a603201 00000000 00000000"
    " 00000000 06000400 00500000 07000600 72720000 0c000700 02000000 ffffffff 08000800 00000000"
    f" 08000900 ffffffff {BOTH}"
)
DNS_TOLD = (
    "01010000 54010100 06000100 0a000000 06000200 11000000 14000300 fd000010 00960000 00000000"
    " 00005002 06000400 00350000 07000600 6d680000 0c000700 13000000 ffffffff 08000800 58020000"
    f" 08000900 80000000 {BOTH}"
)
MARK_TOLD = (
    "01010000 3c010100 06000100 02000000 08000500 07000000 07000600 72720000 0c000700 02000000"
    f" ffffffff 08000800 00000000 08000900 ffffffff 04000b00 {BOTH}"
)
POD_TOLD = (
    "05010000 78010200 14000100 0a80010a 00000000 00000000 00000000 06000200 1f900000 08000300"
    " 00000000 08000400 01000000 05000d00 00000000 06000e00 00000000 06000f00 00000000 08000500"
    " 00000000 08000600 00000000 08000700 05000000 08000800 06000000 08000900 00000000 06000b00"
    f" 02000000 {BOTH}"
)
OLD_POD_TOLD = (
    "05010000 b8000200 14000100 fd000128 00010000 00000000 00000011 06000200 14e90000 08000300"
    " 00000000 08000400 00000000 08000500 00000000 08000600 00000000 08000700 00000000 08000800"
    f" 00000000 08000900 00000000 {OLD_STATISTICS.format(*COUNTED)}"
)


def answer(payload: str) -> Message:
    return Message(NUMBER, 2, 1, bytes.fromhex(payload))


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(WEB_TOLD, (WEB, VirtualServer()), id="ipv4"),
        pytest.param(DNS_TOLD, (DNS, STICKY), id="ipv6-and-persistent"),
        pytest.param(MARK_TOLD, None, id="of-a-firewall-mark"),
    ],
)
def test_virtual_servers(payload: str, expected: tuple[ServerKey, VirtualServer] | None) -> None:
    assert expected == server_in(answer(payload))
    counted = None if expected is None else (expected[0], CONNECTIONS)
    assert counted == connections_in(answer(payload))


@pytest.mark.parametrize(
    ("payload", "family", "key", "server"),
    [
        pytest.param(POD_TOLD, Family.IPV4, POD, RealServer(1, 5, 6), id="ipv4"),
        pytest.param(OLD_POD_TOLD, Family.IPV6, POD6, RealServer(0), id="old-kernel"),
        pytest.param(
            POD_TOLD, Family.IPV6, POD, RealServer(1, 5, 6), id="tunnel-to-the-other-family"
        ),
    ],
)
def test_real_servers(payload: str, family: Family, key: RealKey, server: RealServer) -> None:
    assert (key, server) == real_in(answer(payload), family)


def whole(address: str) -> bytes:
    """The address as the kernel sends it, in 16 bytes."""
    return pack(address).ljust(16, b"\0")


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


addresses = (st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)).map(unpack)
ports = st.integers(0, 0xFFFF)
keys = st.builds(ServerKey, st.sampled_from(Protocol), addresses, ports)
schedulers = st.sampled_from(["rr", "lblcr", "mh"])
unhashed = st.sampled_from([0, PERSISTENT, SOURCE_PORT, PERSISTENT | SOURCE_PORT])
virtual = st.builds(VirtualServer, schedulers, unhashed, st.integers(0, 0xFFFFFFFF))


@given(keys, virtual)
def test_what_is_written_is_what_is_read(key: ServerKey, server: VirtualServer) -> None:
    """The kernel sends the attributes that it was given, addresses filled up to 16 bytes."""
    asked = attributes(body(command_request(NUMBER, AddServer(key, server)))[1])
    echoed = asked | {3: whole(key.address)}
    payload = nested(1, *(attribute(kind, value) for kind, value in echoed.items()))
    assert (key, server) == server_in(request(NUMBER, 1, payload))


@given(keys, addresses, ports, st.integers(0, 1))
def test_one_pack_is_the_same_as_attribute_by_attribute(
    key: ServerKey, address: str, port: int, weight: int
) -> None:
    server = nested(
        1,
        attribute(1, struct.pack("=H", {Family.IPV4: 2, Family.IPV6: 10}[family_of(key.address)])),
        attribute(2, struct.pack("=H", key.protocol)),
        attribute(3, pack(key.address)),
        attribute(4, struct.pack("!H", key.port)),
    )
    real = nested(
        2,
        attribute(1, pack(address)),
        attribute(2, struct.pack("!H", port)),
        attribute(3, number(0)),
        attribute(4, number(weight)),
        attribute(5, number(0)),
        attribute(6, number(0)),
    )
    command = SetReal(key, RealKey(address, port), weight)
    assert request(NUMBER, 6, server + real) == command_request(NUMBER, command)


def test_the_longest_name_of_a_scheduler() -> None:
    message = command_request(NUMBER, AddServer(WEB, VirtualServer("x" * 15)))
    assert text(6, "x" * 15) in message.payload


NUMBER_ANSWER = bytes.fromhex(
    "01020000 09000200 49505653 00000000 06000100 1c000000 08000300 01000000 08000500 06000000"
)


def test_a_request_to_a_subsystem() -> None:
    expected = Message(28, NLM_F_REQUEST | NLM_F_DUMP, 0, bytes.fromhex("04010000 04000100"))
    assert expected == request(28, 4, bytes.fromhex("04000100"), NLM_F_DUMP)


def test_the_request_for_the_number() -> None:
    payload = bytes.fromhex("03010000 09000200 49505653 00000000")
    assert Message(0x10, NLM_F_REQUEST | NLM_F_ACK, 0, payload) == number_request()


def test_the_number_in_the_answer() -> None:
    message = Message(0x10, 0, 0, NUMBER_ANSWER)
    assert (number_in(message), body(message)[2]) == (28, b"IPVS\0")
