"""Sending events: to a sink that fails on purpose, and to a server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from fakes.apiserver import FakeApiServer
from kubeproxy.base import klog
from kubeproxy.cluster.client.access import Access
from kubeproxy.cluster.client.failures import UnreachableError
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.source import Write
from kubeproxy.cluster.watch.apiserver import ApiServer, WatchSettings
from kubeproxy.serve.events import recorder as module
from kubeproxy.serve.events import series
from kubeproxy.serve.events.event import Event, Severity, Subject, starting
from kubeproxy.serve.events.recorder import Recorder
from waiting import until

EVENT = starting("kestrel", "nftables")
GONE = Status(404, "NotFound")
EXISTS = Status(409, "AlreadyExists")
FORBIDDEN = Status(403, "Forbidden", "you may not")
UNREACHABLE = UnreachableError("connection refused")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_PERIOD", 0.002)


class Sink:
    """Takes requests, and answers with what the test says; then with success."""

    def __init__(self, *answers: Status | Exception | None) -> None:
        self.answers = list(answers)
        self.methods: list[str] = []
        self.bodies: list[dict[str, object]] = []

    async def write(self, method: str, path: str, body: bytes, content_type: str) -> Status | None:
        assert path.startswith("/apis/events.k8s.io/v1/namespaces/")
        assert content_type
        answer = self.answers.pop(0) if self.answers else None
        self.methods.append(method)
        self.bodies.append(msgspec.json.decode(body))
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextlib.asynccontextmanager
async def recording(sink: Write | None) -> AsyncIterator[Recorder]:
    recorder = Recorder("kestrel.example", sink)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Stored(msgspec.Struct):
    """An event, as far as a test looks at it."""

    regarding: dict[str, str]
    series: dict[str, object] = {}


def other(name: str) -> Event:
    return Event(Subject("Node", name), Severity.NORMAL, "Starting", "StartKubeProxy")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([None], ["POST"], id="taken"),
        pytest.param([UNREACHABLE, UNREACHABLE], ["POST"] * 3, id="tried-until-it-is-reached"),
        pytest.param([FORBIDDEN], ["POST"], id="a-rejection-is-final"),
        pytest.param([EXISTS], ["POST"], id="it-is-there-already"),
        pytest.param([UNREACHABLE] * 20, ["POST"] * 12, id="given-up-after-twelve-tries"),
    ],
)
async def test_one_event(answers: list[Status | Exception | None], expected: list[str]) -> None:
    sink = Sink(*answers)
    async with recording(sink.write) as recorder:
        await recorder.record_last(EVENT)
        assert expected == sink.methods


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([None, None], ["POST", "PATCH"], id="patched"),
        pytest.param([None, GONE], ["POST", "PATCH", "POST"], id="created-again-when-it-is-gone"),
        pytest.param(
            [None, GONE, EXISTS],
            ["POST", "PATCH", "POST", "PATCH"],
            id="patched-after-all-when-it-is-there",
        ),
        pytest.param([None, FORBIDDEN], ["POST", "PATCH"], id="a-rejection-is-final"),
    ],
)
async def test_the_second_of_a_kind(
    answers: list[Status | Exception | None], expected: list[str]
) -> None:
    sink = Sink(*answers)
    async with recording(sink.write) as recorder:
        for _ in range(5):
            recorder.record(EVENT)
        await recorder.record_last(EVENT)
        assert expected == sink.methods


async def test_a_series_is_sent_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "FORGOTTEN_AFTER", 50_000_000)
    sink = Sink()
    async with recording(sink.write) as recorder:
        for _ in range(4):
            recorder.record(EVENT)
        await until(lambda: sink.methods == ["POST", "PATCH", "PATCH"])
        series_of = [body.get("series") for body in sink.bodies]
        assert isinstance(series_of[-1], dict)
        assert series_of[-1]["count"] == 4
        await recorder.record_last(EVENT)
        assert sink.methods[-1] == "POST"


async def test_what_finds_no_room_is_dropped_counted_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    sink = Sink(UNREACHABLE)
    async with recording(sink.write) as recorder:
        for number in range(10):
            recorder.record(other(f"node-{number}"))
        await recorder.record_last(other("node-10"))
        assert len(sink.methods) == 4
        recorder.record(other("late"))
        await until(lambda: len(sink.methods) == 5)
    logged = capsys.readouterr().err
    assert recorder.dropped == 8
    assert logged.count("Too many events wait") == 1
    assert logged.count('"Events have room again" dropped=8') == 1


async def test_the_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAST_WORDS", 0.02)
    monkeypatch.setattr(module, "RETRY_PERIOD", 60.0)
    sink = Sink(UNREACHABLE)
    async with recording(sink.write) as recorder, asyncio.timeout(5):
        await recorder.record_last(EVENT)
    assert sink.methods == ["POST"]


async def test_without_a_sink_events_are_logged_only(capsys: pytest.CaptureFixture[str]) -> None:
    klog.configure(klog.LogSettings(verbosity=2))
    async with recording(None) as recorder, asyncio.timeout(5):
        await recorder.record_last(EVENT)
        await recorder.run()
    logged = capsys.readouterr().err
    assert (
        '"Event occurred" object="kestrel" kind="Node" type="Normal" reason="Starting"' in logged
    )


async def test_a_server_takes_events_and_their_series() -> None:
    async with FakeApiServer() as server:
        source = ApiServer(Access(server=server.url), WatchSettings(node_name="kestrel"))
        following = asyncio.create_task(source.run(lambda _: None))
        await until(lambda: bool(server.requests))
        async with recording(source.write) as recorder:
            for _ in range(3):
                recorder.record(EVENT)
            await recorder.record_last(other("heron"))
            refused = await source.write("POST", "/apis/events.k8s.io/v1/nonsense", b"{}", "a/b")
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        stored = msgspec.convert(server.objects("Event"), list[Stored])
    counts = {event.regarding["name"]: event.series.get("count") for event in stored}
    assert counts == {"kestrel": 2, "heron": None}
    assert refused is not None
    assert refused.code == 404
