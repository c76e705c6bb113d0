import msgspec
import pytest

from kubeproxy.cluster.objects.decode import UndecodableObject, convert, decode
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import EndpointSlice, Service


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
