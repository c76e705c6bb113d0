"""Watching a real HTTP server: syncing, resuming, and recovering from failures."""

import asyncio
import time
from itertools import chain, pairwise, repeat

import msgspec
import pytest

from cluster.following import NODE, access_to, following, service
from fakes.apiserver import FakeApiServer, Request
from kubeproxy.base import klog
from kubeproxy.base.errors import ApiServerError
from kubeproxy.cluster.client.access import Access, ClusterEntry
from kubeproxy.cluster.client.failures import RefusedError, UnreachableError
from kubeproxy.cluster.client.http_client import RateLimit
from kubeproxy.cluster.events import Event, Reset, Synced, Upsert
from kubeproxy.cluster.objects.meta import Kind
from kubeproxy.cluster.watch import listwatch
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings

pytestmark = pytest.mark.usefixtures("short_waits")


def lists(server: FakeApiServer) -> list[Request]:
    """Requests that list all objects."""
    return [
        request
        for request in server.requests
        if "watch" not in request.query or "sendInitialEvents" in request.query
    ]


def watches(server: FakeApiServer) -> list[str]:
    """The versions from which watches were opened."""
    return [
        request.query["resourceVersion"]
        for request in server.requests
        if "watch" in request.query and "sendInitialEvents" not in request.query
    ]


# --- syncing ----------------------------------------------------------------------------------


async def test_a_watch_list_syncs_and_live_changes_follow_on_the_same_stream(
    server: FakeApiServer,
) -> None:
    server.put(service("a"))
    server.put(service("headless", clusterIP="None"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        assert {"a"} == consumer.names()
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.delete("Service", "ns", "a")
        await consumer.wait_names("b")
        assert isinstance(consumer.events[0], Reset)
    assert len(server.requests) == 1


async def test_all_kinds_are_watched_with_their_selectors(server: FakeApiServer) -> None:
    label = {"service.kubernetes.io/headless": ""}
    server.put(service("a"))
    server.put({"kind": "EndpointSlice", "metadata": {"name": "s", "namespace": "ns"}})
    server.put(
        {"kind": "EndpointSlice", "metadata": {"name": "h", "namespace": "ns", "labels": label}}
    )
    server.put({"kind": "Node", "metadata": {"name": NODE}})
    server.put({"kind": "Node", "metadata": {"name": "other"}})
    server.put({"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}})
    async with following(server, *Kind) as consumer:
        for kind in Kind:
            await consumer.wait_synced(kind)
        names = {kind: consumer.names(kind) for kind in Kind}
    expected = {
        Kind.SERVICE: {"a"},
        Kind.ENDPOINT_SLICE: {"s"},
        Kind.NODE: {NODE},
        Kind.SERVICE_CIDR: {"kubernetes"},
    }
    assert expected == names


async def test_a_server_without_watch_lists_is_listed_in_pages(server: FakeApiServer) -> None:
    server.faults.refuse_watchlist()
    server.faults.paginate_cached = True
    names = {f"s{number}" for number in range(1200)}
    for name in names:
        server.put(service(name))
    async with following(server) as consumer:
        await consumer.wait_synced()
        assert names == consumer.names()
        server.put(service("later"))
        await consumer.wait(lambda: "later" in consumer.names())
        assert consumer.lists() == 1
    pages = [request.query for request in server.requests if "limit" in request.query]
    assert len(pages) == 3
    assert pages[0]["resourceVersion"] == "0"
    assert all("continue" in query for query in pages[1:])


async def test_storage_without_progress_requests_is_listed(server: FakeApiServer) -> None:
    server.faults.refuse_watchlist(old_storage=True)
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_names("a")
        server.put(service("b"))
        await consumer.wait_names("a", "b")


async def test_the_gate_switches_the_watch_list_off(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server, watch_list=False) as consumer:
        await consumer.wait_names("a")
        await server.wait_watchers(1)
    assert [pair for pair in server.requests[0].query.items() if "Selector" not in pair[0]] == [
        ("limit", "500"),
        ("resourceVersion", "0"),
    ]


async def test_a_large_list_leaves_the_event_loop_to_other_tasks(server: FakeApiServer) -> None:
    for number in range(3000):
        server.put(service(f"s{number}"))
    async with following(server, watch_list=False) as consumer:
        between = [0]
        while not consumer.lists():
            await asyncio.sleep(0)
            between.append(len(consumer.events))
    steps = [after - before for before, after in pairwise(between)]
    assert max(steps) <= 64


async def test_a_slow_stream_arrives_all_the_same(server: FakeApiServer) -> None:
    for number in range(20):
        server.put(service(f"s{number}"))
    server.faults.slow(20_000)
    async with following(server) as consumer:
        await consumer.wait_synced()
        assert len(consumer.names()) == 20


async def test_big_responses_are_compressed_and_inflated_on_the_way(server: FakeApiServer) -> None:
    for number in range(300):
        server.put(service(f"s{number}", note="x" * 1000))
    async with following(server, watch_list=False) as consumer:
        await consumer.wait_synced()
        assert len(consumer.names()) == 300
    assert server.requests[0].headers["Accept-Encoding"] == "gzip"
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.put(service("live"))  # each event of a compressed watch-list is readable at once
        await consumer.wait(lambda: "live" in consumer.names())


async def test_waiting_for_the_rate_limit_is_logged_when_it_is_long(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.client.http_client.LONG_WAIT", 0.1)
    rate_limit = RateLimit(2, 1)
    async with following(
        server, Kind.SERVICE, Kind.NODE, watch_list=False, rate_limit=rate_limit
    ) as consumer:
        await consumer.wait_synced()
        await consumer.wait_synced(Kind.NODE)
    (line,) = capsys.readouterr().err.splitlines()
    assert '"Waiting for the client-side rate limit" delay=0.' in line


async def test_compression_can_be_switched_off(server: FakeApiServer) -> None:
    cluster = ClusterEntry(disable_compression=True)
    async with following(Access(server=server.url, cluster=cluster)) as consumer:
        await consumer.wait_synced()
    assert "Accept-Encoding" not in server.requests[0].headers


async def test_a_path_in_the_server_url_is_a_prefix() -> None:
    async with FakeApiServer(prefix="/k8s/clusters/c-1") as server, following(server) as consumer:
        await consumer.wait_synced()


async def test_requests_name_the_client(server: FakeApiServer) -> None:
    async with following(server) as consumer:
        await consumer.wait_synced()
    headers = server.requests[0].headers
    assert headers["User-Agent"].startswith("kubeproxy/0.1.0 (linux/")
    assert headers["User-Agent"].endswith(" kube-proxy/v1.38.0")
    assert headers["Accept"] == "application/json"


async def test_requests_are_logged_at_6(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        klog.set_verbosity(6)
        async with following(server) as consumer:
            await consumer.wait_synced()
    finally:
        klog.configure(klog.LogSettings())
    logged = capsys.readouterr().err
    assert '"HTTP request" method="GET" path="/api/v1/services" query={"' in logged
    assert '} answer="200" seconds=0.' in logged


# --- resuming ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mid_line", [False, True], ids=["between-lines", "within-a-line"])
async def test_a_cut_watch_is_resumed_without_a_new_list(
    server: FakeApiServer, mid_line: bool
) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        last = server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.cut_streams(mid_line=mid_line)
        await server.wait_watchers(0)
        server.delete("Service", "ns", "a")
        await consumer.wait_names("b")
        assert consumer.lists() == 1
    assert len(lists(server)) == 1
    assert [str(last)] == watches(server)


async def test_a_bookmark_moves_the_version_to_resume_from(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        other = server.put({"kind": "Node", "metadata": {"name": "elsewhere"}})
        server.bookmark()
        server.faults.end_streams()
        await consumer.wait(lambda: len(consumer.attempts) == 2)
    assert [str(other)] == watches(server)


async def test_an_outage_of_the_server_causes_no_relist(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server, Kind.SERVICE, Kind.NODE) as consumer:
        await consumer.wait_synced()
        await consumer.wait_synced(Kind.NODE)
        before = len(consumer.events)
        await server.pause()
        await consumer.wait(lambda: sum(a.code == "<error>" for a in consumer.attempts) >= 4)
        assert before == len(consumer.events)
        assert {"a"} == consumer.names()
        server.put(service("b"))
        await server.resume()
        await consumer.wait_names("a", "b")
        assert consumer.lists() == 1
    assert len(lists(server)) == 2


async def test_when_one_watch_reaches_the_server_again_the_others_do_not_wait(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = chain([60.0, 0.2, 60.0], repeat(0.2))  # at first only one of them waits briefly
    monkeypatch.setattr("kubeproxy.cluster.watch.backoff.Backoff.delay", lambda *_: next(waits))
    await server.pause()
    async with following(server, Kind.SERVICE, Kind.NODE, Kind.SERVICE_CIDR) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) == 3)
        await server.resume()
        for kind in (Kind.SERVICE, Kind.NODE, Kind.SERVICE_CIDR):
            await consumer.wait_synced(kind)


async def test_a_lost_server_is_one_line_for_all_kinds_and_one_when_it_is_back(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    async with following(server, *Kind) as consumer:
        for kind in Kind:
            await consumer.wait_synced(kind)
        await server.pause()
        await consumer.wait(lambda: sum(a.code == "<error>" for a in consumer.attempts) >= 12)
        await server.resume()
        await server.wait_watchers(4)
        server.put(service("a"))
        await consumer.wait_names("a")
    lost, back = capsys.readouterr().err.splitlines()
    assert '"API server unreachable, the rules stay as they are"' in lost
    assert f"cannot connect to {server.url} (connection refused: is the API server" in lost
    assert f'server="{server.url}" since="20' in lost
    assert lost.startswith("E")
    assert '"API server reachable again"' in back
    assert back.startswith("I")


async def test_an_expired_version_leads_to_a_relist(server: FakeApiServer) -> None:
    server.put(service("a"))
    server.put(service("b"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.faults.cut_streams()
        server.delete("Service", "ns", "a")
        server.put(service("c"))
        server.compact()
        await consumer.wait_synced(times=2)
        assert {"b", "c"} == consumer.names()
    assert len(lists(server)) == 2


async def test_a_version_from_the_future_leads_to_a_relist(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server, watch_list=False) as consumer:
        await consumer.wait_synced()
        await server.wait_watchers(1)
        server.store.version += 1000  # as if etcd came back from an old backup
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.store.version -= 1000
        server.faults.fail_streams(500)
        await consumer.wait_synced(times=2)
    assert [lists(server)[at].query.get("resourceVersion") for at in (0, -1)] == ["0", None]


# --- invalid streams --------------------------------------------------------------------------


async def test_an_error_event_leads_to_a_relist(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.faults.fail_streams(500, "etcd is unwell")
        await consumer.wait_synced(times=2)
        server.put(service("b"))
        await consumer.wait_names("a", "b")
    assert "etcd is unwell" in capsys.readouterr().err


@pytest.mark.parametrize(
    "data", [b"<html>this is not JSON</html>\n", b'{"type":"ADDED","object":{\n', b"\xff\xfe\n"]
)
async def test_garbage_in_a_stream_loses_nothing(
    server: FakeApiServer, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.faults.garbage(data)
        await consumer.wait_synced(times=2)
        server.put(service("b"))
        await consumer.wait_names("a", "b")
    assert "sent invalid data, relisting" in capsys.readouterr().err


async def test_a_truncated_stream_loses_nothing(server: FakeApiServer) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.faults.truncate()
        await consumer.wait_synced(times=2)
        assert {"a"} == consumer.names()


async def test_an_object_that_does_not_decode_is_reported_once_for_each_version(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.put(service("a"))
    async with following(server) as consumer:
        await consumer.wait_synced()
        server.put(service("a", ports="none"))
        server.put(service("b"))
        await consumer.wait_names("a", "b")
        server.faults.fail_streams(500)
        await consumer.wait(lambda: consumer.events.count(Reset(Kind.SERVICE)) == 2)
        server.put(service("c"))
        await consumer.wait_names("a", "b", "c")
        server.put(service("a", ports=7))
        server.delete("Service", "ns", "b")
        await consumer.wait_names("a", "c")
    reported = [line for line in capsys.readouterr().err.splitlines() if "Service ns/a" in line]
    assert len(reported) == 2
    assert "`$.spec.ports`" in reported[0]


async def test_an_idle_watch_is_opened_again(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listwatch, "IDLE_AFTER_BOOKMARK", 0.05)
    async with following(server) as consumer:
        await consumer.wait_synced()
        await consumer.wait(lambda: len(watches(server)) == 1)
        assert consumer.lists() == 1


async def test_a_watch_list_that_never_completes_gives_way_to_a_list(
    server: FakeApiServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(listwatch, "FIRST_BOOKMARK_WAIT", 0.02)
    server.put(service("a" * 60))
    server.faults.slow(1)
    async with following(server) as consumer:
        await consumer.wait(lambda: len(consumer.attempts) == 1)
        await consumer.wait(lambda: len(consumer.attempts) == 2)
        server.faults.slow(None)
        await consumer.wait_synced()
    written = capsys.readouterr().err
    assert written.count("has not completed the watch-list yet") == 5
    assert written.count("does not complete the watch-list, falling back to a list") == 1


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(401, "the client is anonymous: check that the token or", id="401"),
        pytest.param(403, "such as ClusterRole system:node-proxier, is bound to it", id="403"),
        pytest.param(404, "check the server URL and its path, and that the cluster", id="404"),
        pytest.param(500, "500 InternalError: refused on purpose", id="500"),
    ],
)
async def test_a_refusal_is_reported_once_and_passes(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str], code: int, expected: str
) -> None:
    server.put(service("a"))
    server.faults.status("/services", code, times=6)
    async with following(server) as consumer:
        await consumer.wait_names("a")
    refused, again = capsys.readouterr().err.splitlines()
    assert f"{server.url} refused to serve services (/api/v1/services)" in refused
    assert expected in refused
    assert again.startswith("I")


async def test_service_cidrs_hold_up_nothing_else(
    server: FakeApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults.status("/servicecidrs", 404, times=None)
    server.put(service("a"))
    async with following(server, *Kind) as consumer:
        await consumer.wait_synced(Kind.NODE)
        await consumer.wait_synced(Kind.ENDPOINT_SLICE)
        await consumer.wait_names("a")
        refused = [request for request in server.requests if "servicecidrs" in request.path]
        await consumer.wait(lambda: len(consumer.attempts) > 20)
        assert refused
    (line,) = capsys.readouterr().err.splitlines()
    assert "refused to serve servicecidrs" in line


async def test_retry_after_is_obeyed(server: FakeApiServer) -> None:
    server.put(service("a"))
    server.faults.status("/services", 429, times=2, retry_after=0)
    server.faults.status("/services", 503, times=2, retry_after=1)
    began = time.monotonic()
    async with following(server) as consumer:
        await consumer.wait_names("a")
    assert time.monotonic() - began >= 2
    assert [attempt.code for attempt in consumer.attempts] == ["429", "429", "503", "503", "200"]
    assert [attempt.retry_of for attempt in consumer.attempts] == ["", "429", "429", "503", "503"]


async def test_retries_that_a_server_asks_for_end_after_ten(server: FakeApiServer) -> None:
    server.faults.status("/services", 500, times=11, retry_after=0)
    async with following(server) as consumer:
        await consumer.wait_synced()
    codes = [attempt.code for attempt in consumer.attempts]
    assert codes == 11 * ["500"] + ["200"]
    assert "sendInitialEvents" not in server.requests[11].query


async def test_too_many_requests_are_tried_again(server: FakeApiServer) -> None:
    server.faults.status("/services", 429, times=2)
    async with following(server) as consumer:
        await consumer.wait_synced()
    assert len(server.requests) == 3


async def test_lists_wait_for_the_rate_limit_and_watches_do_not(server: FakeApiServer) -> None:
    server.faults.paginate_cached = True
    for number in range(1001):
        server.put(service(f"s{number}"))
    async with following(server, watch_list=False, rate_limit=RateLimit(3, 1)) as consumer:
        await consumer.wait_synced()
        await server.wait_watchers(1)
        server.faults.cut_streams()
        await consumer.wait(lambda: len(watches(server)) == 2)
    waits = [round(attempt.waited, 2) > 0 for attempt in consumer.attempts]
    assert waits == [False, True, True, False, False]
    assert [attempt.watch for attempt in consumer.attempts] == [False, False, False, True, True]
    assert [exchange.sent for exchange in consumer.exchanges] == [0, 0, 0]
    assert all(exchange.received for exchange in consumer.exchanges)


# --- the life of a source ---------------------------------------------------------------------


async def test_what_the_consumer_raises_ends_the_source(server: FakeApiServer) -> None:
    def deliver(event: Event) -> None:
        if isinstance(event, Upsert):
            raise ZeroDivisionError

    server.put(service("a"))
    source = ApiServer(access_to(server), WatchSettings(NODE), environ={})
    with pytest.raises(ExceptionGroup) as caught:
        await source.run(deliver)
    assert caught.group_contains(ZeroDivisionError)
    await server.wait_watchers(0)


async def test_cancelling_leaves_no_task_and_no_connection(server: FakeApiServer) -> None:
    before = asyncio.all_tasks()
    async with following(server, *Kind) as consumer:
        await consumer.wait_synced()
    await server.wait_watchers(0)
    leftover = {task for task in asyncio.all_tasks() - before if "Bookmark" not in repr(task)}
    assert not [task for task in leftover if "watch" in task.get_name()]


async def test_the_events_of_a_list_are_in_order(server: FakeApiServer) -> None:
    for name in ("a", "b", "c"):
        server.put(service(name))
    async with following(server) as consumer:
        await consumer.wait_synced()
        kinds = [type(event) for event in consumer.events]
    assert [Reset, Upsert, Upsert, Upsert, Synced] == kinds


# --- one-shot requests ------------------------------------------------------------------------


class Pod(msgspec.Struct):
    metadata: dict[str, object]


async def test_tools_can_get_one_object(server: FakeApiServer) -> None:
    server.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}})
    source = ApiServer(access_to(server), WatchSettings(NODE), environ={})
    found = await source.get_json("/api/v1/namespaces/ns/pods/p", (), Pod)
    assert found.metadata["name"] == "p"


async def test_tools_get_the_reason_of_a_failure(server: FakeApiServer) -> None:
    source = ApiServer(access_to(server), WatchSettings(NODE), environ={})
    with pytest.raises(RefusedError, match=r'404 NotFound: pods "p" not found') as caught:
        await source.get_json("/api/v1/namespaces/ns/pods/p", (), Pod)
    assert caught.value.status.code == 404
    with pytest.raises(ApiServerError, match="answered with something else than expected"):
        await source.get_json("/healthz", (), Pod)
    await server.pause()
    with pytest.raises(UnreachableError, match="is the API server running"):
        await source.get_json("/healthz", (), Pod)


async def test_a_server_with_an_invalid_name_is_unreachable() -> None:
    access = Access(server=f"http://{'a' * 100}.example")
    source = ApiServer(access, WatchSettings(NODE), environ={})
    with pytest.raises(UnreachableError, match=r"the request to http://a+\.example failed"):
        await source.get_json("/healthz", (), Pod)


async def test_an_endless_response_is_not_read_to_its_end(
    server: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubeproxy.cluster.watch.apiserver.LARGE_LIST", 1000)
    server.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "x": "y" * 2000}})
    source = ApiServer(access_to(server), WatchSettings(NODE), environ={})
    with pytest.raises(UnreachableError, match="answered with more than 1000 bytes"):
        await source.get_json("/api/v1/namespaces/ns/pods/p", (), Pod)
