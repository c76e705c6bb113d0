import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.linux.netlink.message import (
    NLM_F_ACK,
    NLM_F_ACK_TLVS,
    NLM_F_CAPPED,
    NLM_F_CREATE,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    WHOLE_BATCH,
    Message,
    MessageError,
    decode,
    encode,
    refusal,
)
from kubeproxy.linux.netlink.nfnetlink import (
    BATCH_OVERHEAD,
    NFNL_MSG_BATCH_BEGIN,
    NFNL_MSG_BATCH_END,
    NFPROTO_IPV4,
    batch,
    request,
)
from kubeproxy.linux.netlink.nftables import NFT_MSG_NEWGEN, NFT_MSG_NEWTABLE, generation_in

BRACKET = bytes([0, 0, 0, 10])  # nfgenmsg of nftables, as begin and end carry it

inner = st.builds(
    Message,
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFFFF),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=40),
    st.just(0),
)


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def test_a_request_carries_its_family_and_flags() -> None:
    expected = Message(
        NFT_MSG_NEWTABLE, NLM_F_REQUEST | NLM_F_CREATE, 0, bytes([2, 0, 0, 0]) + b"attr"
    )
    assert [expected] == list(
        decode(request(NFT_MSG_NEWTABLE, NFPROTO_IPV4, b"attr", NLM_F_CREATE))
    )


@given(st.lists(inner, min_size=1))
def test_a_batch_numbers_its_messages_and_asks_for_one_answer(sent: list[Message]) -> None:
    first, *middle, end = decode(bytes(batch([encode(message) for message in sent])))
    assert first == Message(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 0, BRACKET)
    assert end == Message(NFNL_MSG_BATCH_END, NLM_F_REQUEST, len(sent) + 1, BRACKET)
    expected = [message._replace(sequence=i) for i, message in enumerate(sent, 1)]
    expected[-1] = expected[-1]._replace(flags=sent[-1].flags | NLM_F_ACK)
    assert expected == middle


def test_an_empty_batch_asks_for_an_answer_at_its_end() -> None:
    assert list(decode(bytes(batch([])))) == [
        Message(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 0, BRACKET),
        Message(NFNL_MSG_BATCH_END, NLM_F_REQUEST | NLM_F_ACK, 1, BRACKET),
    ]


def test_a_batch_names_the_generation_that_it_was_made_for() -> None:
    message = request(NFT_MSG_NEWTABLE, NFPROTO_IPV4)
    data = batch([message], generation=0x01020304)
    begin = next(decode(bytes(data)))
    assert begin.payload == BRACKET + attribute(1, bytes([1, 2, 3, 4]))
    assert len(data) == len(message) + BATCH_OVERHEAD


REFUSED_HEADER = struct.pack("=IHHII", 23, NFT_MSG_NEWTABLE, 0, 5, 0)
TEXT = attribute(1, b"no such thing\0")
OFFSET = attribute(2, struct.pack("=I", 20))


@pytest.mark.parametrize(
    ("flags", "error", "rest", "expected"),
    [
        pytest.param(0, 0, REFUSED_HEADER, None, id="an-acknowledgement"),
        pytest.param(0, -17, REFUSED_HEADER, MessageError(4, 17), id="without-explanation"),
        pytest.param(
            NLM_F_CAPPED | NLM_F_ACK_TLVS,
            -2,
            REFUSED_HEADER + TEXT + OFFSET,
            MessageError(4, 2, "no such thing", 20),
            id="explained",
        ),
        pytest.param(
            NLM_F_ACK_TLVS,
            -2,
            REFUSED_HEADER + b"payload\0" + TEXT,
            MessageError(4, 2, "no such thing"),
            id="explained-after-the-payload",
        ),
        pytest.param(
            NLM_F_CAPPED | NLM_F_ACK_TLVS,
            -2,
            REFUSED_HEADER + OFFSET,
            MessageError(4, 2, "", 20),
            id="only-the-place",
        ),
    ],
)
def test_refusals(flags: int, error: int, rest: bytes, expected: MessageError | None) -> None:
    payload = struct.pack("=i", error) + rest
    assert expected == refusal(Message(NLMSG_ERROR, flags, 5, payload))


def test_the_generation() -> None:
    payload = bytes([0, 0, 0, 7]) + attribute(1, bytes([0, 0, 1, 0])) + attribute(2, bytes(4))
    assert generation_in(Message(NFT_MSG_NEWGEN, 0, 1, payload)) == 256


@pytest.mark.parametrize(
    ("number", "flags", "expected"),
    [
        pytest.param(0, 0, None, id="complete"),
        pytest.param(-4, 0, MessageError(WHOLE_BATCH, 4), id="interrupted"),
        pytest.param(-4, NLM_F_ACK_TLVS, MessageError(WHOLE_BATCH, 4), id="with-attributes"),
    ],
)
def test_how_a_dump_ended(number: int, flags: int, expected: MessageError | None) -> None:
    payload = struct.pack("=i", number)
    assert expected == refusal(Message(NLMSG_DONE, flags, 0, payload))
