"""Splitting a stream into lines."""

import pytest

from kubeproxy.cluster.watch import lines
from kubeproxy.cluster.watch.lines import LineSplitter, LineTooLong


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
    assert rest == splitter.finish()
    assert splitter.finish() == b""


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_LINE", 10)
    splitter = LineSplitter()
    assert splitter.feed(b"12345678\n12345678") == [b"12345678"]
    with pytest.raises(LineTooLong, match="check that the server URL leads to a Kubernetes"):
        splitter.feed(b"901")


def test_many_small_pieces_cost_what_they_hold() -> None:
    splitter = LineSplitter()
    for _ in range(100_000):
        assert splitter.feed(b"0123456789") == []
    (line,) = splitter.feed(b"\n")
    assert len(line) == 1_000_000
