import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.cluster.objects.decode import (
    UndecodableObject,
    convert,
    decode,
    decode_nested,
    without_depths,
)
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import EndpointSlice, Service

DEEPEST_OF_AN_API_SERVER = 9_990


def test_only_the_fields_that_are_read_are_kept() -> None:
    data = b"""{"metadata": {"name": "a", "namespace": "n", "managedFields": [1]},
                "spec": {"clusterIP": "10.0.0.1", "selector": {"x": "y"}, "ports": null}}"""
    service = decode(Kind.SERVICE, data)
    assert isinstance(service, Service)
    assert service.metadata.key == ObjectKey("n", "a")
    assert service.spec is not None
    assert service.spec.cluster_ip == "10.0.0.1"
    assert service.spec.ports is None


def test_a_part_of_a_list_decodes_on_its_own() -> None:
    items = msgspec.json.decode(b'[{"metadata": {"name": "a"}}]', type=list[msgspec.Raw])
    assert isinstance(decode(Kind.ENDPOINT_SLICE, items[0]), EndpointSlice)


@pytest.mark.parametrize(
    ("data", "key", "reason"),
    [
        pytest.param(
            b'{"metadata": {"name": "a", "namespace": "n"}, "spec": {"ports": "80"}}',
            ObjectKey("n", "a"),
            "Expected `array | null`, got `str` - at `$.spec.ports`",
            id="wrong-type",
        ),
        pytest.param(b'{"metadata": {"name": "a"', None, "Input data was truncated", id="cut-off"),
        pytest.param(b'{"metadata": {}}', None, "metadata.name is missing", id="no-name"),
        pytest.param(
            b'{"metadata": 1}',
            None,
            "Expected `object`, got `int` - at `$.metadata`",
            id="metadata-is-no-object",
        ),
    ],
)
def test_what_does_not_decode_is_named(data: bytes, key: ObjectKey | None, reason: str) -> None:
    with pytest.raises(UndecodableObject) as caught:
        decode(Kind.SERVICE, data)
    assert (key, reason) == (caught.value.key, caught.value.reason)
    assert ("n/a" if key else "its name cannot be read") in str(caught.value)


def test_documents_are_converted() -> None:
    service = convert(Kind.SERVICE, {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1"}})
    assert service.metadata.key == ObjectKey("", "a")
    assert str(service.metadata.key) == "a"


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"metadata": {"name": "a", "namespace": "n"}, "spec": 1}, ObjectKey("n", "a")),
        ({"metadata": {"name": 1}}, None),
    ],
)
def test_documents_that_do_not_convert_are_named(
    document: dict[str, object], key: ObjectKey | None
) -> None:
    with pytest.raises(UndecodableObject) as caught:
        convert(Kind.SERVICE, document)
    assert key == caught.value.key


# --- objects that are nested deep -------------------------------------------------------------


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
