"""Lines of a watch, and their decoding in one step or in two."""

import pytest

from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch import wire
from kubeproxy.cluster.watch.wire import JSON, InvalidData, LineSplitter

SERVICE = b'{"metadata":{"name":"cart","namespace":"shop"},"spec":{"clusterIP":"10.112.0.21"}}'


def line(type_: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + type_ + b'","object":' + obj + b"}"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(line(b"ADDED", SERVICE), id="added"),
        pytest.param(line(b"MODIFIED", SERVICE), id="modified"),
        pytest.param(b'{"object":' + SERVICE + b',"more":[1],"type":"ADDED"}', id="other-order"),
    ],
)
def test_a_valid_upsert_is_decoded_in_one_step(data: bytes) -> None:
    expected = decode(Kind.SERVICE, JSON.event(data).object)
    assert expected == JSON.upsert(Kind.SERVICE, data)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(line(b"DELETED", SERVICE), id="deleted"),
        pytest.param(line(b"BOOKMARK", SERVICE), id="a-bookmark"),
        pytest.param(line(b"ERROR", b'{"code":410}'), id="an-error"),
        pytest.param(line(b"RENAMED", SERVICE), id="an-unknown-type"),
        pytest.param(b'{"object":' + SERVICE + b"}", id="no-type"),
        pytest.param(line(b"ADDED", b'{"metadata":{"namespace":"shop"}}'), id="no-name"),
        pytest.param(line(b"ADDED", SERVICE.replace(b'"10.112.0.21"', b"1")), id="a-wrong-field"),
        pytest.param(line(b"ADDED", SERVICE.replace(b"cart", b"\xff")), id="not-utf-8"),
        pytest.param(line(b"ADDED", SERVICE)[:-1], id="cut-off"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_all_else_is_left_to_the_second_step(other: bytes) -> None:
    assert JSON.upsert(Kind.SERVICE, other) is None


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_decoded_in_one_step(kind: Kind) -> None:
    data = line(b"ADDED", b'{"metadata":{"name":"n","namespace":"shop"}}')
    expected = decode(kind, JSON.event(data).object)
    assert expected == JSON.upsert(kind, data)


@pytest.mark.parametrize(
    ("chunks", "expected", "rest"),
    [
        pytest.param([b"a\n"], [b"a"], b"", id="one-line"),
        pytest.param([b"a\nb\nc"], [b"a", b"b"], b"c", id="unfinished-last-line"),
        pytest.param([b"a", b"b", b"\n"], [b"ab"], b"", id="a-line-in-pieces"),
        pytest.param([b"a", b"b\nc", b"d\n"], [b"ab", b"cd"], b"", id="pieces-across-lines"),
        pytest.param([b"\n", b" \r\n", b"a\n"], [b"a"], b"", id="blank-lines-are-left-out"),
        pytest.param([b""], [], b"", id="nothing"),
        pytest.param([b"a", b" \r"], [], b"a", id="blanks-at-the-very-end"),
    ],
)
def test_lines_of_a_stream(chunks: list[bytes], expected: list[bytes], rest: bytes) -> None:
    splitter = LineSplitter()
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert expected == found
    assert ([rest] if rest else []) == splitter.finish()
    assert splitter.finish() == []


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LONGEST_LINE", 10)
    splitter = LineSplitter()
    assert splitter.feed(b"12345678\n12345678") == [b"12345678"]
    with pytest.raises(InvalidData, match="check that the server URL leads to a Kubernetes"):
        splitter.feed(b"901")


def test_many_small_pieces_cost_what_they_hold() -> None:
    splitter = LineSplitter()
    for _ in range(100_000):
        assert splitter.feed(b"0123456789") == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 1_000_000
