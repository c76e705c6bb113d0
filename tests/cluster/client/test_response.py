"""Decompressing gzip that is cut anywhere."""

import gzip
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.cluster.client.response import PIECE, Inflater

TEXTS = [b"one\n", b"", b"two " * 3000 + b"\n", bytes(range(256)) * 40, b"three\n"]
MEMBERS = b"".join(gzip.compress(text) for text in TEXTS)
WHOLE = b"".join(TEXTS)


def inflated(*chunks: bytes) -> bytes:
    inflater = Inflater()
    return b"".join(fed(inflater, chunk) for chunk in chunks)


def fed(inflater: Inflater, chunk: bytes) -> bytes:
    """All that a chunk brings."""
    inflater.feed(chunk)
    pieces = list(iter(inflater.take, b""))
    assert all(len(piece) <= PIECE for piece in pieces)
    return b"".join(pieces)


def test_many_members_in_one_chunk() -> None:
    assert inflated(MEMBERS) == WHOLE


@given(st.lists(st.integers(0, len(MEMBERS)), max_size=20).map(sorted))
def test_however_it_is_cut_it_inflates_to_the_same(cuts: list[int]) -> None:
    edges = [0, *cuts, len(MEMBERS)]
    assert inflated(*(MEMBERS[start:end] for start, end in pairwise(edges))) == WHOLE


def test_what_was_flushed_is_readable_at_once() -> None:
    writer, inflater = zlib.compressobj(wbits=31), Inflater()
    for line in (b"first\n", b"second\n"):
        assert line == fed(inflater, writer.compress(line) + writer.flush(zlib.Z_SYNC_FLUSH))


def test_thousands_of_small_members_cost_what_they_hold() -> None:
    member = gzip.compress(b"x")
    assert inflated(member * 20_000) == b"x" * 20_000


def test_what_is_not_gzip_is_an_error() -> None:
    with pytest.raises(zlib.error):
        inflated(b"<html>")


def test_what_is_large_comes_in_pieces_and_all_of_it_comes() -> None:
    text = b"a" * (3 * PIECE + 100) + b"\n"
    writer, inflater = zlib.compressobj(wbits=31), Inflater()
    bomb = writer.compress(text) + writer.flush(zlib.Z_SYNC_FLUSH)
    assert len(bomb) < 5000
    assert text == fed(inflater, bomb)


def test_a_bomb_takes_no_more_memory_than_a_piece() -> None:
    bomb = gzip.compress(bytes(64 * PIECE))
    inflater = Inflater()
    tracemalloc.start()
    try:
        inflater.feed(bomb)
        assert sum(map(len, iter(inflater.take, b""))) == 64 * PIECE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * PIECE
