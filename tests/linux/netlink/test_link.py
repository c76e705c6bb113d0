import pytest

from kubeproxy.linux.netlink.link import delete_request, kind_in, link_request, new_dummy_request
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_REQUEST, Message

CREATE, EXCLUSIVE = 0x400, 0x200
DEVICE = bytes.fromhex("00000000 07000000 00000000 00000000")


def test_a_dummy_has_a_name_and_no_queue() -> None:
    payload = bytes.fromhex(
        "00000000 00000000 00000000 00000000"
        "0f000300 6b756265 2d697076 73300000"
        "08000d00 00000000"
        "10001200 0a000100 64756d6d 79000000"
    )
    expected = Message(16, NLM_F_REQUEST | CREATE | EXCLUSIVE, 0, payload)
    assert expected == new_dummy_request("kube-ipvs0")


def test_a_device_is_asked_for_and_deleted_by_its_index() -> None:
    assert Message(18, NLM_F_REQUEST | NLM_F_ACK, 0, DEVICE) == link_request(7)
    assert Message(17, NLM_F_REQUEST, 0, DEVICE) == delete_request(7)


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
