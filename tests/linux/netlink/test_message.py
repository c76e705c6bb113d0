import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink.message import Message, attributes, decode, encode
from kubeproxy.linux.netlink.route import addresses_request, change_in

messages = st.builds(
    Message,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40),
    st.integers(0, 2**32 - 1),
)


@given(st.lists(messages))
def test_what_is_encoded_is_decoded(sent: list[Message]) -> None:
    assert sent == list(decode(b"".join(map(encode, sent))))


@given(messages, st.integers(1, 15))
def test_a_message_that_is_cut_off_is_not_there(message: Message, lost: int) -> None:
    data = encode(message._replace(payload=bytes(16)))
    assert list(decode(data[:-lost])) == []


def test_a_length_that_cannot_be_ends_the_datagram() -> None:
    assert list(decode(bytes(16))) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            bytes([5, 0, 1, 0, 9, 0, 0, 0, 6, 0, 2, 0, 7, 8]), {1: b"\x09", 2: b"\x07\x08"}
        ),
        pytest.param(bytes([4, 0, 1, 0x80]), {1: b""}, id="the-nested-flag-is-not-the-type"),
        pytest.param(bytes([9, 0, 1, 0, 5]), {}, id="cut-off"),
        pytest.param(bytes([3, 0, 1, 0]), {}, id="too-short-to-be-one"),
    ],
)
def test_attributes(data: bytes, expected: dict[int, bytes]) -> None:
    assert expected == attributes(data)


@pytest.mark.parametrize(
    ("payload", "family", "expected"),
    [
        (bytes([2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 10, 0, 0, 1]), Family.IPV4, "10.0.0.1"),
        (
            bytes([2, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 10, 0, 0, 1, 8, 0, 2, 0, 10, 0, 0, 2]),
            Family.IPV4,
            "10.0.0.2",
        ),
        (bytes([10, 8, 0, 0, 1, 0, 0, 0, 8, 0, 1, 0, 10, 0, 0, 1]), Family.IPV4, None),
        (bytes([2, 8, 0, 0, 1, 0, 0, 0]), Family.IPV4, None),
    ],
    ids=["address", "local-beats-peer", "other-family", "no-address"],
)
def test_addresses(payload: bytes, family: Family, expected: str | None) -> None:
    change = change_in(Message(20, 0, 0, payload), family)
    assert expected == (change.address if change else None)


def test_other_messages_have_no_address() -> None:
    assert change_in(addresses_request(Family.IPV6), Family.IPV6) is None
