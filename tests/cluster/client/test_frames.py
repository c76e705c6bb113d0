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
    last_stream_of,
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
    assert [Frame(0, largest)] == list(splitter.feed(largest))
    with pytest.raises(InvalidFrame, match="a frame of 65537 bytes"):
        list(splitter.feed(frame(0, bytes(MAX_FRAME_SIZE + 1))[:9]))


def test_the_last_stream_of_a_goaway() -> None:
    fields = (0x8000_0007).to_bytes(4, "big") + bytes(4)  # the first bit is reserved
    assert last_stream_of(Frame(GOAWAY, frame(GOAWAY, fields + b"why", 0))) == 7
    with pytest.raises(InvalidFrame, match="without its fields"):
        last_stream_of(Frame(GOAWAY, frame(GOAWAY, fields[:7], 0)))
