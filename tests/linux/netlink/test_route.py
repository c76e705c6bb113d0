import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, Message
from kubeproxy.linux.netlink.route import (
    AddressChange,
    Device,
    add_address_request,
    addresses_request,
    change_in,
    delete_device_request,
    device_in,
    device_of,
    device_request,
    devices_request,
    kind_in,
    new_dummy_request,
    remove_address_request,
)

CREATE, EXCLUSIVE = 0x400, 0x200
VIP = "02200000 07000000 08000200 0a603201 08000100 0a603201"
VIP6 = (
    "0a800000 07000000 14000200 fd000010 00960000 00000000 00005001"
    " 14000100 fd000010 00960000 00000000 00005001"
)


@pytest.mark.parametrize(
    ("family", "payload"), [(Family.IPV4, "02000000 00000000"), (Family.IPV6, "0a000000 00000000")]
)
def test_the_request_for_all(family: Family, payload: str) -> None:
    expected = Message(22, NLM_F_REQUEST | NLM_F_DUMP, 0, bytes.fromhex(payload))
    assert expected == addresses_request(family)


@pytest.mark.parametrize(
    ("address", "payload"),
    [
        pytest.param("10.96.50.1", VIP, id="ipv4"),
        pytest.param("fd00:10:96::5001", VIP6, id="ipv6"),
    ],
)
def test_single_addresses_are_added_and_removed(address: str, payload: str) -> None:
    body = bytes.fromhex(payload)
    flags = NLM_F_REQUEST | CREATE | EXCLUSIVE
    assert Message(20, flags, 0, body) == add_address_request(7, address)
    assert Message(21, NLM_F_REQUEST, 0, body) == remove_address_request(7, address)


@pytest.mark.parametrize(
    ("kind", "payload", "family", "expected"),
    [
        pytest.param(20, VIP, Family.IPV4, "10.96.50.1", id="of-ipv4"),
        pytest.param(20, VIP6, Family.IPV6, "fd00:10:96::5001", id="of-ipv6"),
        pytest.param(20, VIP6, Family.IPV4, None, id="of-the-other-family"),
        pytest.param(
            20,
            "02200000 07000000 08000100 0a000002 08000200 0a000001",
            Family.IPV4,
            "10.0.0.1",
            id="ours-and-not-the-peers",
        ),
        pytest.param(
            20, "02200000 07000000 08000100 0a000002", Family.IPV4, "10.0.0.2", id="address-alone"
        ),
        pytest.param(20, "02200000 07000000", Family.IPV4, None, id="without-address"),
    ],
)
def test_the_address_in_a_message(
    kind: int, payload: str, family: Family, expected: str | None
) -> None:
    message = Message(kind, 0, 0, bytes.fromhex(payload))
    change = change_in(message, family)
    assert (expected, 7) == (change.address if change else None, device_in(message))


@pytest.mark.parametrize(
    ("kind", "family", "expected"),
    [
        pytest.param(20, Family.IPV4, AddressChange("10.96.50.1", is_there=True), id="came"),
        pytest.param(21, Family.IPV4, AddressChange("10.96.50.1", is_there=False), id="went"),
        pytest.param(16, Family.IPV4, None, id="a-device"),
        pytest.param(21, Family.IPV6, None, id="another-family"),
    ],
)
def test_the_change_in_a_message(
    kind: int, family: Family, expected: AddressChange | None
) -> None:
    assert expected == change_in(Message(kind, 0, 0, bytes.fromhex(VIP)), family)


DEVICE = bytes.fromhex("00000000 07000000 00000000 00000000")


def test_a_dummy_has_a_name_and_no_queue() -> None:
    payload = bytes.fromhex(
        "00000000 00000000 00000000 00000000"
        "0f000300 6b756265 2d697076 73300000"
        "08000d00 00000000"
        "10001200 0a000100 64756d6d 79000000"
    )
    expected = Message(16, NLM_F_REQUEST | NLM_F_ACK | CREATE | EXCLUSIVE, 0, payload)
    assert expected == new_dummy_request("kube-ipvs0")


def test_a_device_is_asked_for_and_deleted_by_its_index() -> None:
    assert Message(18, NLM_F_REQUEST | NLM_F_ACK, 0, DEVICE) == device_request(7)
    assert Message(17, NLM_F_REQUEST | NLM_F_ACK, 0, DEVICE) == delete_device_request(7)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        pytest.param("09000300 6c6f3000 00000000", "", id="not-virtual"),
        pytest.param("10001200 0a000100 64756d6d 79000000", "dummy", id="dummy"),
        pytest.param(
            "14001280 0b000100 62726964 67650000 04000200", "bridge", id="flagged-nested"
        ),
    ],
)
def test_the_kind_of_a_device(rest: str, expected: str) -> None:
    message = Message(16, 0, 0, DEVICE + bytes.fromhex(rest))
    assert expected == kind_in(message)


def test_devices_are_described() -> None:
    assert devices_request() == Message(
        18, NLM_F_REQUEST | NLM_F_DUMP, 0, bytes.fromhex("00000000 00000000 00000000 00000000")
    )
    head = "00000100 03000000 43100100 00000000"
    name, mtu = "0a000300 76657468 31000000", "08000400 dc050000"
    kind = "10001200 09000100 76657468 00000000"
    message = Message(16, 0, 0, bytes.fromhex(f"{head} {name} {mtu} {kind}"))
    assert device_of(message) == Device("veth1", "veth", 1, 0x11043, 1500)
