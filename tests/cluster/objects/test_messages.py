"""Objects in protobuf decode to what their JSON decodes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.recorded import OBJECTS
from fakes.apiprotobuf import field, message, varint
from kubeproxy.cluster.objects.decode import UndecodableObject, decode
from kubeproxy.cluster.objects.messages import (
    _ENDPOINT,
    UNREADABLE,
    decode_endpoint,
    decode_message,
    decode_metadata,
)
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.objects.protobuf import InvalidProtobuf, unwrapped
from kubeproxy.cluster.objects.types import EndpointSlice, Service, SliceEndpoint, TargetRef

META = field(1, field(1, b"n"))


@pytest.mark.parametrize(("kind", "json", "protobuf"), OBJECTS)
def test_what_a_real_server_sends(kind: str, json: bytes, protobuf: bytes) -> None:
    assert decode(Kind(kind), json) == decode_message(Kind(kind), unwrapped(protobuf))
    assert decode(Kind(kind), json).metadata == decode_metadata(unwrapped(protobuf))


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(varint(99 << 3) + varint(7), id="number"),
        pytest.param(varint(99 << 3) + varint(-1), id="negative-number"),
        pytest.param(varint(99 << 3 | 1) + bytes(8), id="eight-bytes"),
        pytest.param(varint(99 << 3 | 5) + bytes(4), id="four-bytes"),
        pytest.param(field(99, bytes(300)), id="bytes"),
        pytest.param(varint(1 << 3) + varint(7), id="another-type-of-a-known-number"),
    ],
)
def test_unknown_fields_are_skipped(unknown: bytes) -> None:
    expected = decode_message(Kind.SERVICE, META)
    assert expected == decode_message(Kind.SERVICE, unknown + META + unknown)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(META[:-1], "a message is cut off", id="cut-in-a-text"),
        pytest.param(META + b"\x12", "a message is cut off", id="cut-before-a-length"),
        pytest.param(META + field(99, b"xy")[:-1], "cut off", id="cut-in-an-unknown-field"),
        pytest.param(META + varint(99 << 3 | 1) + b"1", "cut off", id="cut-in-eight-bytes"),
        pytest.param(META + b"\x18", "a message is cut off", id="cut-before-a-number"),
        pytest.param(META + b"\x0b", "a field of wire type 3", id="a-group"),
        pytest.param(META + b"\x18" + b"\xff" * 10, "more than ten bytes", id="a-long-number"),
        pytest.param(META + field(2, b"none"), "wire type|cut off", id="text-for-a-message"),
        pytest.param(META + field(2, field(3, b"\xff")), "utf-8", id="not-utf-8"),
        pytest.param(field(2, b""), "metadata", id="no-metadata"),
        pytest.param(field(1, b""), "metadata.name is missing", id="no-name"),
        pytest.param(
            field(1, field(1, b"n") + field(8, varint(8) + varint(1 << 60))),
            "a time that is out of range",
            id="a-time-far-away",
        ),
    ],
)
def test_an_object_that_does_not_decode_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(UndecodableObject, match=reason):
        decode_message(Kind.SERVICE, data)


def test_an_object_that_does_not_decode_has_its_name() -> None:
    with pytest.raises(UndecodableObject) as caught:
        decode_message(Kind.SERVICE, field(1, field(1, b"n") + field(6, b"7")) + field(2, b"no"))
    assert str(caught.value.key) == "n"
    assert caught.value.resource_version == "7"


def test_negative_numbers_are_negative() -> None:
    port = field(1, varint(3 << 3) + varint(-1))
    found = decode_message(Kind.SERVICE, META + field(2, port))
    assert isinstance(found, Service)
    assert found.spec is not None
    assert found.spec.ports is not None
    assert found.spec.ports[0].port == -1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b'{"kind":"Node"}', "does not begin as", id="json"),
        pytest.param(b"k8s\0\x12", "cut off", id="cut"),
        pytest.param(b"k8s\0" + field(3, b"gzip"), "encoded as gzip", id="encoded"),
    ],
)
def test_bodies_that_are_none(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidProtobuf, match=reason):
        unwrapped(body)


TEXTS = st.sampled_from(["", "10.0.0.1", "fd00::1", "x" * 126, "y" * 127, "z" * 128, "é"])
MAYBE = st.none() | st.booleans()
ENDPOINTS = st.fixed_dictionaries(
    {},
    optional={
        "addresses": st.lists(TEXTS, max_size=2),
        "conditions": st.fixed_dictionaries(
            {}, optional={"ready": MAYBE, "serving": MAYBE, "terminating": MAYBE}
        ),
        "targetRef": st.fixed_dictionaries(
            {},
            optional={
                "kind": st.sampled_from(("Pod", "Node")),
                "name": TEXTS | st.just("w" * 20_000),
                "namespace": TEXTS,
            },
        ),
        "nodeName": TEXTS,
        "zone": TEXTS,
        "hints": st.sampled_from(
            [{}, {"forZones": [{"name": "a"}]}, {"forNodes": [{"name": "n" * 40}] * 4}]
        ),
    },
)


@given(ENDPOINTS)
def test_the_quick_way_to_an_endpoint_leads_to_the_same(endpoint: dict[str, object]) -> None:
    data = message("Endpoint", endpoint)
    assert _ENDPOINT.decode(data) == decode_endpoint(data)


USUAL = message(
    "Endpoint",
    {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True},
        "targetRef": {"kind": "Pod", "name": "p" * 130},
        "nodeName": "node-1",
        "zone": "a",
        "hints": {"forZones": [{"name": "a"}]},
    },
)


@pytest.mark.parametrize("size", [1, 130, 20_000])
@pytest.mark.parametrize("kind", ["Pod", "Node"])
def test_the_quick_way_reads_what_an_endpoint_is(kind: str, size: int) -> None:
    endpoint = {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True},
        "targetRef": {"kind": kind, "name": "p" * size},
        "nodeName": "node-1",
    }
    found = decode_endpoint(message("Endpoint", endpoint))
    assert found == _ENDPOINT.decode(message("Endpoint", endpoint))
    assert found.target_ref == TargetRef(kind)


def outcome(decode: object, data: bytes) -> object:
    assert callable(decode)
    try:
        return decode(data)
    except UNREADABLE:
        return "refused"


@pytest.mark.parametrize("size", range(len(USUAL)))
def test_the_quick_way_refuses_what_is_cut_off(size: int) -> None:
    assert outcome(_ENDPOINT.decode, USUAL[:size]) == outcome(decode_endpoint, USUAL[:size])


HINTED = field(8, field(1, field(1, b"a")))
UNHINTED = USUAL[: -len(HINTED)]
BARE = UNHINTED[: -len(field(7, b"a"))]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(UNHINTED, id="without-hints"),
        pytest.param(BARE, id="without-a-zone"),
        pytest.param(BARE + HINTED, id="with-hints-and-no-zone"),
        pytest.param(BARE + field(7, b"z" * 128) + HINTED, id="with-a-long-zone"),
        pytest.param(BARE + field(7, b"B\0" * 64 + b"B\1") + HINTED, id="with-a-zone-like-hints"),
        pytest.param(UNHINTED + field(8, field(1, field(1, b"n" * 200))), id="with-long-hints"),
        pytest.param(USUAL + HINTED, id="with-hints-twice"),
        pytest.param(USUAL + field(9, b"?"), id="with-more-behind"),
        pytest.param(UNHINTED + field(8, b"\x0a"), id="with-hints-that-are-cut-off"),
    ],
)
def test_the_quick_way_takes_an_endpoint(data: bytes) -> None:
    assert outcome(_ENDPOINT.decode, data) == outcome(decode_endpoint, data)


@given(
    st.integers(0, len(USUAL)),
    st.binary(max_size=3),
    st.integers(0, 3),
)
def test_the_quick_way_refuses_what_the_other_refuses(at: int, put: bytes, cut: int) -> None:
    data = USUAL[:at] + put + USUAL[at + cut :]
    assert outcome(_ENDPOINT.decode, data) == outcome(decode_endpoint, data)


def test_a_slice_keeps_the_order_of_its_endpoints() -> None:
    addresses = [f"10.0.0.{number}" for number in range(100)]
    body = {
        "metadata": {"name": "s"},
        "endpoints": [{"addresses": [address]} for address in addresses],
    }
    found = decode_message(Kind.ENDPOINT_SLICE, message("EndpointSlice", body))
    assert isinstance(found, EndpointSlice)
    assert tuple(SliceEndpoint((address,)) for address in addresses) == found.endpoints
