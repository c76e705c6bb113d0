"""A line of a watch that is read in one go says what it says when it is read in two."""

import pytest

from kubeproxy.cluster.objects.decode import decode
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch.wire import decode_event, decode_told

SERVICE = b'{"metadata":{"name":"cart","namespace":"shop"},"spec":{"clusterIP":"10.112.0.21"}}'


def line(type_: bytes, obj: bytes) -> bytes:
    return b'{"type":"' + type_ + b'","object":' + obj + b"}"


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(line(b"ADDED", SERVICE), id="added"),
        pytest.param(line(b"MODIFIED", SERVICE), id="modified"),
        pytest.param(b'{"object":' + SERVICE + b',"more":[1],"type":"ADDED"}', id="other-order"),
    ],
)
def test_what_is_in_order_is_read_in_one_go(told: bytes) -> None:
    expected = decode(Kind.SERVICE, decode_event(told).object)
    assert expected == decode_told(Kind.SERVICE, told)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(line(b"DELETED", SERVICE), id="deleted"),
        pytest.param(line(b"BOOKMARK", SERVICE), id="a-bookmark"),
        pytest.param(line(b"ERROR", b'{"code":410}'), id="an-error"),
        pytest.param(line(b"RENAMED", SERVICE), id="a-type-that-nobody-knows"),
        pytest.param(b'{"object":' + SERVICE + b"}", id="no-type"),
        pytest.param(line(b"ADDED", b'{"metadata":{"namespace":"shop"}}'), id="no-name"),
        pytest.param(line(b"ADDED", SERVICE.replace(b'"10.112.0.21"', b"1")), id="a-wrong-field"),
        pytest.param(line(b"ADDED", SERVICE.replace(b"cart", b"\xff")), id="not-utf-8"),
        pytest.param(line(b"ADDED", SERVICE)[:-1], id="cut-off"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_all_else_is_left_to_those_who_say_what_it_is(other: bytes) -> None:
    assert decode_told(Kind.SERVICE, other) is None


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_can_be_read_in_one_go(kind: Kind) -> None:
    told = line(b"ADDED", b'{"metadata":{"name":"n","namespace":"shop"}}')
    expected = decode(kind, decode_event(told).object)
    assert expected == decode_told(kind, told)
