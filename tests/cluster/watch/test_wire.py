"""Lines of a watch, and their decoding in one step or in two."""

import json
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.apijson import deeper
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.cluster.watch import wire
from kubeproxy.cluster.watch.wire import JSON, InvalidData, JsonListReader, LineSplitter, Page

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


# --- lists ------------------------------------------------------------------------------------

NESTED = [{"metadata": {"name": "x"}}, {"metadata": {"name": "y"}}]
ITEMS = [
    *({"metadata": {"name": f"s{number}"}, "spec": {"type": "},{"}} for number in range(5)),
    {"metadata": {"name": "s5"}, "nested": NESTED},
    {"metadata": {"name": "s6"}},
]
OBJECTS = [decode(Kind.SERVICE, msgspec.json.encode(item)) for item in ITEMS]


def written(items: object = ITEMS, **metadata: str) -> bytes:
    """As the API server writes a list."""
    body = {"kind": "ServiceList", "metadata": {"resourceVersion": "7"} | metadata, "items": items}
    return msgspec.json.encode(body) + b"\n"


def read(pieces: Iterable[bytes]) -> tuple[list[object], Page]:
    """All items of a list, and what its reader says at the end."""
    reader, found = JsonListReader(Kind.SERVICE), list[KubeObject | msgspec.Raw]()
    for piece in pieces:
        found += reader.feed(piece)
    page = reader.finish()
    return [*map(decoded, found), *map(decoded, page.items)], page


def decoded(item: KubeObject | msgspec.Raw) -> object:
    return JSON.decode(Kind.SERVICE, item) if isinstance(item, msgspec.Raw) else item


@given(st.lists(st.integers(0, len(written())), max_size=20).map(sorted))
def test_however_a_list_is_cut_it_has_the_same_items(cuts: list[int]) -> None:
    body = written()
    found, page = read(body[start:end] for start, end in pairwise([0, *cuts, len(body)]))
    assert found == OBJECTS
    assert (page.version, page.token) == ("7", "")


def test_the_items_of_a_list_are_there_before_its_end() -> None:
    """So that tens of megabytes are not in memory at once."""
    body, most = written(ITEMS[:5] * 1000), 0
    reader, found = JsonListReader(Kind.SERVICE), 0
    for start in range(0, len(body), 4096):
        items = reader.feed(body[start : start + 4096])
        found, most = found + len(items), max(most, len(items))
    assert found >= 5000 - most
    assert found + len(reader.finish().items) == 5000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(written([]), [], id="no-items"),
        pytest.param(written(None), [], id="null"),
        pytest.param(written(ITEMS[:1]), OBJECTS[:1], id="one-item"),
        pytest.param(json.dumps(json.loads(written())).encode(), OBJECTS, id="spaces"),
        pytest.param(
            msgspec.json.encode({"items": ITEMS, "metadata": {"resourceVersion": "7"}}),
            OBJECTS,
            id="items-first",
        ),
        pytest.param(written(comment='"items":['), OBJECTS, id="a-text-like-the-items"),
        pytest.param(written(comment="x" * 20_000), OBJECTS, id="a-long-head"),
        pytest.param(written().replace(b"}\n", b',"more":[{"metadata":{}}]}'), OBJECTS, id="more"),
    ],
)
@pytest.mark.parametrize("size", [1, 64, 1_000_000])
def test_lists_that_look_otherwise_are_read_too(
    body: bytes, expected: list[object], size: int
) -> None:
    found, page = read(body[start : start + size] for start in range(0, len(body), size))
    assert found == expected
    assert page.version == "7"


def test_a_list_of_any_depth_is_read_in_pieces() -> None:
    first, *_ = ITEMS
    body = written([first, first, first])
    reader = JsonListReader(Kind.SERVICE)
    assert len(reader.feed(deeper(body.replace(b'{"name":', b'{ "name":')))) == 2
    assert len(reader.finish().items) == 1


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"metadata": {"name": "bad"}, "spec": 7}, id="other-types"),
        pytest.param({"metadata": {"namespace": "ns"}}, id="no-name"),
    ],
)
def test_an_invalid_object_is_left_to_the_second_step(bad: dict[str, object]) -> None:
    first, *_ = ITEMS
    found = JsonListReader(Kind.SERVICE).feed(written([first, bad, first, first]))
    assert [msgspec.json.decode(each) for each in found] == [first, bad, first]  # type: ignore[arg-type]  # raw


def test_the_token_of_the_next_page_is_in_the_head() -> None:
    assert read([written(**{"continue": "t1"})])[1].token == "t1"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(written()[:-20], "not a list", id="cut"),
        pytest.param(written().replace(b'"s1"', b'"s1'), "not a list", id="broken-in-the-middle"),
        pytest.param(written(resourceVersion=""), "no resourceVersion", id="no-version"),
        pytest.param(b"<html>" * 10_000, "not a list", id="html"),
    ],
)
def test_lists_that_are_none(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidData, match=reason):
        read([body])
