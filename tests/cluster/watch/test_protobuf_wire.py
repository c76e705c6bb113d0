"""The protobuf of lists and watches."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.recorded import in_json, protobuf
from fakes.apiprotobuf import event_frame, field, message, wrapped
from kubeproxy.cluster.client.status import decode_status
from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch import protobuf_wire
from kubeproxy.cluster.watch.protobuf_wire import PROTOBUF, LengthSplitter
from kubeproxy.cluster.watch.wire import JSON, Encoding, InvalidData, Page

WATCH = protobuf("watch")
NODE = message("Node", {"metadata": {"name": "n", "resourceVersion": "7"}})


def frames(stream: bytes) -> list[bytes]:
    splitter = LengthSplitter()
    found = splitter.feed(stream)
    assert splitter.finish() == []
    return found


def test_the_watch_of_a_real_server_is_the_same_in_both_encodings() -> None:
    events = frames(WATCH)
    lines = in_json("watch").splitlines()
    assert len(lines) == len(events) > 1
    for line, data in zip(lines, events, strict=True):
        expected, found = JSON.event(line), PROTOBUF.event(data)
        assert expected.type == found.type
        assert JSON.metadata(expected).annotations == PROTOBUF.metadata(found).annotations
        assert JSON.upsert(Kind.NODE, line) == PROTOBUF.upsert(Kind.NODE, data)
        if found.type == "ADDED":
            assert decode(Kind.NODE, expected.object) == PROTOBUF.decode(Kind.NODE, found.object)


def whole(encoding: Encoding, body: bytes) -> Page:
    reader = encoding.list_reader(Kind.ENDPOINT_SLICE)
    reader.feed(body)
    return reader.finish()


def test_the_list_of_a_real_server_is_the_same_in_both_encodings() -> None:
    expected, found = whole(JSON, in_json("list")), whole(PROTOBUF, protobuf("list"))
    assert (expected.version, bool(expected.token)) == (found.version, bool(found.token))
    kind = Kind.ENDPOINT_SLICE
    assert [JSON.decode(kind, each) for each in expected.items] == [
        PROTOBUF.decode(kind, each) for each in found.items
    ]


def test_the_refusal_of_a_real_server_is_the_same_in_both_encodings() -> None:
    expected = decode_status(in_json("missing"), 404)
    assert expected == decode_status(protobuf("missing"), 404)
    assert expected.reason == "NotFound"


@given(st.lists(st.integers(0, len(WATCH)), max_size=20).map(sorted))
def test_however_it_is_cut_the_events_are_the_same(cuts: list[int]) -> None:
    splitter = LengthSplitter()
    edges = [0, *cuts, len(WATCH)]
    found = [each for start, end in pairwise(edges) for each in splitter.feed(WATCH[start:end])]
    assert frames(WATCH) == found


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100])
def test_an_event_that_is_not_complete_at_the_end_is_invalid(size: int) -> None:
    splitter = LengthSplitter()
    assert splitter.feed(WATCH[:size]) == []
    with pytest.raises(InvalidData, match="ended within an event"):
        splitter.finish()


def test_an_event_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf_wire, "LONGEST_EVENT", 10)
    assert LengthSplitter().feed(b"\0\0\0\x0a") == []
    with pytest.raises(InvalidData, match="check that the server URL leads to a Kubernetes"):
        LengthSplitter().feed(b"\0\0\0\x0b")


def test_many_small_pieces_cost_what_they_hold() -> None:
    splitter = LengthSplitter()
    assert splitter.feed((1_000_000).to_bytes(4, "big")) == []
    found = [event for _ in range(100_000) for event in splitter.feed(b"0123456789")]
    assert list(map(len, found)) == [1_000_000]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "it has no type", id="nothing"),
        pytest.param(b"<html>", "not a watch event", id="html"),
        pytest.param(event_frame("ADDED", "Node", NODE)[4:-1], "cut off", id="cut"),
        pytest.param(
            field(1, b"ADDED") + field(2, field(1, b"K8S\0" + wrapped("Node", NODE)[4:])),
            "does not begin as",
            id="another-magic-number",
        ),
        pytest.param(field(1, b"\xff"), "utf-8", id="not-utf-8"),
    ],
)
def test_events_that_are_none(data: bytes, reason: str) -> None:
    assert PROTOBUF.upsert(Kind.NODE, data) is None
    with pytest.raises(InvalidData, match=reason):
        PROTOBUF.event(data)


def test_an_object_that_does_not_decode_is_left_to_the_second_step() -> None:
    data = event_frame("ADDED", "Node", field(1, field(1, b"n")) + field(2, b"no"))[4:]
    assert PROTOBUF.upsert(Kind.NODE, data) is None
    assert PROTOBUF.metadata(PROTOBUF.event(data)).name == "n"


def test_metadata_that_does_not_decode_is_invalid() -> None:
    event = PROTOBUF.event(event_frame("DELETED", "Node", field(1, b"no"))[4:])
    with pytest.raises(InvalidData, match="without valid metadata"):
        PROTOBUF.metadata(event)


def test_an_error_has_a_status() -> None:
    status = message("Status", {"code": 410, "reason": "Expired", "message": "too old"})
    found = PROTOBUF.status(PROTOBUF.event(event_frame("ERROR", "Status", status)[4:]))
    assert (found.code, found.reason, found.message) == (410, "Expired", "too old")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b'{"items":[]}', "not a list", id="json"),
        pytest.param(wrapped("NodeList", field(1, b"")), "no resourceVersion", id="no-version"),
        pytest.param(wrapped("NodeList", b"\x0a\x05"), "not a list: .*cut off", id="cut"),
    ],
)
def test_lists_that_are_none(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidData, match=reason):
        whole(PROTOBUF, body)
