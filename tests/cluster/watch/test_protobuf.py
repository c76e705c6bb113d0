"""Watching in protobuf: negotiation, and the faults that JSON streams have too."""

import pytest

from cluster.following import following, service
from fakes.apiprotobuf import PROTOBUF, event_frame, field, message, varint, wrapped
from fakes.apiserver import FakeApiServer
from kubeproxy.cluster.client.contenttypes import (
    DEFAULT,
    ONLY_JSON,
    Accepts,
    accepts,
    is_protobuf,
)
from kubeproxy.cluster.client.http_client import RateLimit
from kubeproxy.cluster.events import Reset
from kubeproxy.cluster.objects.meta import Kind

pytestmark = pytest.mark.usefixtures("short_waits")

ALWAYS = Accepts(PROTOBUF, PROTOBUF)
HALF_A_NAME = message("Service", {"metadata": {"name": "x"}})[:-1]


def asked(server: FakeApiServer) -> list[tuple[bool, str]]:
    """Whether a request was for all objects, and what it accepted."""
    return [
        ("watch" not in each.query or "sendInitialEvents" in each.query, each.headers["Accept"])
        for each in server.requests
    ]


@pytest.fixture(params=[DEFAULT, ALWAYS], ids=["watches", "lists-too"])
def wanted(request: pytest.FixtureRequest) -> Accepts:
    assert isinstance(request.param, Accepts)
    return request.param


# --- negotiation ------------------------------------------------------------------------------


async def test_all_objects_come_in_json_and_changes_in_protobuf(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server, accepts=DEFAULT) as consumer:
        await consumer.wait_synced()
        server.put(service("b", ports=[{"port": 80, "protocol": "TCP"}]))
        await consumer.wait_names("a", "b")
        await server.wait_watchers(1)
        assert server.watchers_of("Service")[0].protobuf
        server.delete("Service", "ns", "a")
        await consumer.wait_names("b")
        assert consumer.lists() == 1
    assert [(True, "application/json"), (False, f"{PROTOBUF}, */*")] == asked(server)


async def test_everything_can_come_in_protobuf(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server, accepts=ALWAYS) as consumer:
        await consumer.wait_names("a")
        server.put(service("b"))
        await consumer.wait_names("a", "b")
    assert asked(server) == [(True, PROTOBUF)]


async def test_lists_can_come_in_protobuf(server: FakeApiServer) -> None:
    server.faults.paginate_cached = True
    names = {f"s{number}" for number in range(700)}
    for name in names:
        server.put(service(name))
    async with following(
        server, watch_list=False, accepts=ALWAYS, rate_limit=RateLimit(-1)
    ) as consumer:
        await consumer.wait_synced()
        assert names == consumer.names()
        server.put(service("later"))
        await consumer.wait(lambda: "later" in consumer.names())


async def test_a_server_that_does_not_know_protobuf_sends_json(server: FakeApiServer) -> None:
    server.knows_protobuf = False
    async with following(server, accepts=DEFAULT) as consumer:
        await consumer.wait_synced()
        server.put(service("a"))
        await consumer.wait_names("a")


async def test_what_is_not_acceptable_is_asked_for_in_json(server: FakeApiServer) -> None:
    server.knows_protobuf = False
    async with following(server, accepts=ALWAYS) as consumer:
        await consumer.wait_synced()
        server.put(service("a"))
        await consumer.wait_names("a")
    assert [attempt.code for attempt in consumer.attempts] == ["406", "200"]


async def test_an_unsupported_type_is_refused_once(server: FakeApiServer) -> None:
    server.faults.status("/services", 415)
    async with following(server, accepts=DEFAULT) as consumer:
        await consumer.wait_synced()
    assert [attempt.code for attempt in consumer.attempts][:2] == ["415", "200"]


@pytest.mark.parametrize(
    ("content_type", "accept", "expected"),
    [
        pytest.param(PROTOBUF, "", DEFAULT, id="default"),
        pytest.param("application/json", "", ONLY_JSON, id="json"),
        pytest.param("application/cbor", "", ONLY_JSON, id="cbor"),
        pytest.param(PROTOBUF, "application/json", ONLY_JSON, id="accept-json"),
        pytest.param("application/json", PROTOBUF, ALWAYS, id="accept-protobuf"),
    ],
)
def test_what_the_settings_ask_for(content_type: str, accept: str, expected: Accepts) -> None:
    assert expected == accepts(content_type, accept)


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (PROTOBUF, True),
        (f"{PROTOBUF};stream=watch", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_the_response_says_what_it_is(content_type: str, expected: bool) -> None:
    assert expected is is_protobuf(content_type)


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mid_event", [False, True], ids=["between-events", "within-an-event"])
async def test_a_cut_watch_is_resumed_without_a_new_list(
    server: FakeApiServer, wanted: Accepts, mid_event: bool
) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.cut_streams(mid_line=mid_event)
        await server.wait_watchers(0)
        server.delete("Service", "ns", "a")
        await consumer.wait_names("b")
        assert consumer.lists() == 1


async def test_an_expired_version_leads_to_a_relist(
    server: FakeApiServer, wanted: Accepts
) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        await server.wait_watchers(1)
        server.faults.cut_streams()
        server.delete("Service", "ns", "a")
        server.put(service("b"))
        server.compact()
        await consumer.wait_synced(times=2)
        await consumer.wait_names("b")


async def test_an_error_event_leads_to_a_relist(
    server: FakeApiServer, wanted: Accepts, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.fail_streams(500, "etcd is unwell")
        await consumer.wait_synced(times=2)
        server.put(service("c"))
        await consumer.wait_names("a", "b", "c")
    assert "etcd is unwell" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"<html>this is not protobuf</html>\n", id="html"),
        pytest.param(b"\0\0\0\0", id="an-empty-event"),
        pytest.param(b"\0\0\0\1" + event_frame("ADDED", "Service", b"")[4:], id="short-length"),
        pytest.param(b"\xff\xff\xff\xff", id="long-length"),
        pytest.param(event_frame("ADDED", "Service", b"").replace(b"k8s", b"K8S"), id="magic"),
        pytest.param(
            b"\0\0\0\x14" + b"\x0a\x05ADDED" + b"\x12\x7f" + bytes(11), id="a-length-inside"
        ),
        pytest.param(b"\0\0\0\2\x0a\xff", id="a-cut-number"),
        pytest.param(event_frame("DELETED", "Service", HALF_A_NAME), id="no-metadata"),
    ],
)
async def test_garbage_in_a_stream_loses_nothing(
    server: FakeApiServer,
    wanted: Accepts,
    data: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.garbage(data)
        await consumer.wait_synced(times=2)
        server.put(service("c"))
        await consumer.wait_names("a", "b", "c")
    assert "sent invalid data, relisting" in capsys.readouterr().err


async def test_a_truncated_stream_loses_nothing(server: FakeApiServer, wanted: Accepts) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.truncate()
        await consumer.wait_synced(times=2)
        assert {"a", "b"} == consumer.names()


async def test_unknown_fields_change_nothing(server: FakeApiServer, wanted: Accepts) -> None:
    body = {"metadata": {"name": "new", "namespace": "ns", "resourceVersion": "99"}}
    encoded = message("Service", body) + field(77, b"later versions") + varint(78 << 3) + b"\1"
    whole = field(1, b"ADDED") + field(2, field(1, wrapped("Service", encoded))) + field(9, b"x")
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("a"))
        await consumer.wait_names("a")
        server.faults.garbage(len(whole).to_bytes(4, "big") + whole)
        await consumer.wait_names("a", "new")
        assert consumer.lists() == 1


async def test_an_object_that_does_not_decode_is_reported_and_kept(
    server: FakeApiServer, wanted: Accepts, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(service("a"))
    async with following(server, accepts=wanted) as consumer:
        await consumer.wait_synced()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.put(service("a", ports="none"))
        server.put(service("c"))
        await consumer.wait_names("a", "b", "c")
        assert consumer.events.count(Reset(Kind.SERVICE)) == 1
    assert "Service ns/a is skipped" in capsys.readouterr().err


async def test_a_slow_stream_arrives_all_the_same(server: FakeApiServer) -> None:
    for number in range(20):
        server.put(service(f"s{number}"))
    server.faults.slow(20_000)
    async with following(server, accepts=ALWAYS) as consumer:
        await consumer.wait_synced()
        assert len(consumer.names()) == 20


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (500, "InternalError")])
async def test_refusals_in_protobuf_are_read(
    server: FakeApiServer, code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults.status("/services", code, times=6)
    async with following(server, accepts=ALWAYS) as consumer:
        await consumer.wait_synced()
    assert f"{code} {reason}: refused on purpose" in capsys.readouterr().err
