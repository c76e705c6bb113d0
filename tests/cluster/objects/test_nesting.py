"""However deep an object is nested, what is read of it is read."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.cluster.objects.nesting import decode_nested, without_depths

DEEPEST_OF_AN_API_SERVER = 9_990


def nested(depth: int, opening: bytes = b'{"f:a":', closing: bytes = b"}") -> bytes:
    return opening * depth + b"1" + closing * depth


class Named(msgspec.Struct):
    name: str


NAMED = msgspec.json.Decoder(Named)


@pytest.mark.parametrize("depth", [1, 49, 50, 1_200, DEEPEST_OF_AN_API_SERVER, 100_000])
@pytest.mark.parametrize(
    ("opening", "closing"), [(b'{"f:a":', b"}"), (b"[", b"]"), (b'[{"]":', b"}]")]
)
def test_what_is_not_read_may_be_of_any_depth(depth: int, opening: bytes, closing: bytes) -> None:
    data = b'{"deep":%s,"name":"cart"}' % nested(depth, opening, closing)
    assert decode_nested(NAMED, data) == Named("cart")


def test_what_breaks_off_is_not_json_then_either() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_nested(NAMED, b'{"name":"cart","deep":' + b"[" * 100_000)


texts = st.text() | st.sampled_from(("[", "}", "\\", '"', '\\"{'))
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=30,
)


def cut(value: Any, levels: int) -> Any:
    """The plain way to do it."""
    if not isinstance(value, list | dict):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [cut(each, levels - 1) for each in value]
    return {key: cut(each, levels - 1) for key, each in value.items()}


@given(values, st.integers(0, 4), st.booleans())
def test_what_is_deeper_is_null_and_all_else_as_it_was(
    value: object, levels: int, ascii_only: bool
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert json.loads(without_depths(data, levels)) == cut(value, levels)
