"""Frames of HTTP/2, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.cluster.client.frames import (
    GOAWAY,
    MAX_FRAME_SIZE,
    Frame,
    FrameSplitter,
    InvalidFrame,
    content_of,
    end_of_stream,
    last_stream_of,
    window_update,
)


def frame(type_: int, payload: bytes, stream: int = 1) -> bytes:
    return (
        len(payload).to_bytes(3, "big") + bytes([type_, 0]) + stream.to_bytes(4, "big") + payload
    )


FRAMES = [frame(0, b"x" * 300), frame(4, b"", 0), frame(GOAWAY, bytes(8), 0), frame(0, b"\n")]
WHOLE = b"".join(FRAMES)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20).map(sorted))
def test_however_it_is_cut_the_frames_are_the_same(cuts: list[int]) -> None:
    splitter = FrameSplitter()
    edges = [0, *cuts, len(WHOLE)]
    found = [each for start, end in pairwise(edges) for each in splitter.feed(WHOLE[start:end])]
    assert [each.encoded for each in found] == FRAMES
    assert [each.type for each in found] == [0, 4, GOAWAY, 0]


def test_the_largest_frame_is_accepted_and_no_larger_one() -> None:
    splitter = FrameSplitter()
    largest = frame(0, bytes(MAX_FRAME_SIZE))
    assert [Frame(0, 0, 1, largest)] == list(splitter.feed(largest))
    with pytest.raises(InvalidFrame, match="a frame of 65537 bytes"):
        list(splitter.feed(frame(0, bytes(MAX_FRAME_SIZE + 1))[:9]))


def test_the_last_stream_of_a_goaway() -> None:
    fields = (0x8000_0007).to_bytes(4, "big") + bytes(4)  # the first bit is reserved
    assert last_stream_of(Frame(GOAWAY, 0, 0, frame(GOAWAY, fields + b"why", 0))) == 7
    with pytest.raises(InvalidFrame, match="without its fields"):
        last_stream_of(Frame(GOAWAY, 0, 0, frame(GOAWAY, fields[:7], 0)))


@pytest.mark.parametrize(
    ("flags", "payload", "content"),
    [
        pytest.param(0, b"abc", b"abc", id="plain"),
        pytest.param(1, b"", b"", id="the-end"),
        pytest.param(8, b"\2abc\0\0", b"abc", id="padded"),
        pytest.param(8, b"\0abc", b"abc", id="padded-with-nothing"),
        pytest.param(8, b"\2\0\0", b"", id="padding-alone"),
    ],
)
def test_what_a_data_frame_carries(flags: int, payload: bytes, content: bytes) -> None:
    found = Frame(0, flags, 1, frame(0, payload))
    assert content == content_of(found)
    assert len(payload) == found.size
    assert found.ends_stream is (flags == 1)


@pytest.mark.parametrize("payload", [b"", b"\1", b"\4abc"])
def test_more_padding_than_data_is_invalid(payload: bytes) -> None:
    with pytest.raises(InvalidFrame, match="more padding than data"):
        content_of(Frame(0, 8, 1, frame(0, payload)))


def test_the_frames_that_we_make() -> None:
    (found,) = FrameSplitter().feed(end_of_stream(7))
    assert (found.type, found.stream_id, found.size, found.ends_stream) == (0, 7, 0, True)
    (found,) = FrameSplitter().feed(window_update(7, 1000))
    assert (found.type, found.stream_id, found.encoded[9:]) == (8, 7, b"\0\0\3\xe8")
