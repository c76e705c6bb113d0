"""What holds for every stream, however it is cut, and for every failure."""

from collections.abc import Iterable
from enum import Enum
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cluster.apijson import (
    BROKEN,
    BUSY,
    EXPIRED,
    FORBIDDEN,
    GATE_OFF,
    TOO_LARGE,
    UNAVAILABLE,
    bookmark,
    event,
    listed,
    page,
    service,
    unreadable,
)
from kubeproxy.cluster.client.resources import SERVICES
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Delete, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.watch.incidents import Incident, Output
from kubeproxy.cluster.watch.listwatch import ApiRequest, ListWatch

STREAM = b"".join(
    [
        event("ADDED", service("a", 3)),
        event("ADDED", service("zwölf-🐈", 4)),
        event("ADDED", unreadable("b", 5)),
        bookmark("7", ends=True),
        b"\n",
        event("MODIFIED", service("a", 8)),
        bookmark("9"),
        event("DELETED", service("a", 10)),
        event("ADDED", service("last", 11)),
    ]
)


def comparable(outputs: Iterable[Output]) -> list[object]:
    """Outputs without the exceptions in them, which are equal to nothing."""
    return [
        (output.key, output.resource_version) if isinstance(output, UndecodableObject) else output
        for output in outputs
    ]


def outputs_of(pieces: Iterable[bytes]) -> list[object]:
    protocol = ListWatch(SERVICES)
    protocol.next_request(0.0, 0.0)
    outputs: list[Output] = [*protocol.opened(0.0)]
    for piece in pieces:
        outputs += protocol.receive(piece)
    return comparable([*outputs, *protocol.closed(400.0)])


WHOLE = outputs_of([STREAM])


def test_a_stream_byte_by_byte_has_the_same_events_as_in_one_piece() -> None:
    assert outputs_of(STREAM[at : at + 1] for at in range(len(STREAM))) == WHOLE
    assert len(WHOLE) == 9


@given(st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted))
def test_however_a_stream_is_cut_it_has_the_same_events(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(edges)]
    assert outputs_of(pieces) == WHOLE


@given(st.binary(max_size=200))
def test_no_bytes_raise_an_exception(data: bytes) -> None:
    outputs_of([STREAM, data + b"\n"])
    protocol = ListWatch(SERVICES, watch_list=False)
    protocol.next_request(0.0, 0.0)
    listed(protocol, data)


# --- failures of a server --------------------------------------------------------------------


class Outcome(Enum):
    """What can happen to a request."""

    NONE = "served"
    UNREACHABLE = "no response"
    CUT = "cut half way"
    CLOSED = "closed half way"
    GARBAGE = "garbage half way"
    SILENT = "falls silent half way"


REFUSALS = [EXPIRED, TOO_LARGE, GATE_OFF, FORBIDDEN, BUSY, BROKEN, UNAVAILABLE]
OUTCOMES = st.one_of(st.sampled_from(list(Outcome)), st.sampled_from(REFUSALS))
CHANGES = st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=4)
"""Names, and whether the object is written or deleted."""


class Server:
    """Objects and their history, answering as an API server does."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, int] = {}
        self._history: list[tuple[int, bytes]] = []

    def change(self, name: str, *, write: bool) -> None:
        if not write and name not in self.objects:
            return
        self.version += 1
        if write:
            type_ = "MODIFIED" if name in self.objects else "ADDED"
            self.objects[name] = self.version
        else:
            type_ = "DELETED"
            del self.objects[name]
        self._history.append((self.version, event(type_, service(name, self.version))))

    def list(self) -> bytes:
        items = [service(name, version) for name, version in self.objects.items()]
        return page(str(self.version), *items)

    def stream(self, query: dict[str, str]) -> bytes:
        if "sendInitialEvents" in query:
            objects = [event("ADDED", service(*each)) for each in self.objects.items()]
            return b"".join([*objects, bookmark(str(self.version), ends=True)])
        since = int(query["resourceVersion"])
        return b"".join(line for version, line in self._history if version > since)


class Consumer:
    """Keeps what it had until Synced, as `cluster.events` demands."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self._unlisted: set[str] = set()

    def observe(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Reset():
                    self._unlisted = set(self.objects)
                case Upsert(object=found):
                    name = found.metadata.name
                    self.objects[name] = int(found.metadata.resource_version)
                    self._unlisted.discard(name)
                case Delete(key=key):
                    self.objects.pop(key.name, None)
                case Synced():
                    for name in self._unlisted:
                        self.objects.pop(name, None)
                case Keep(key=key):
                    self._unlisted.discard(key.name)
                case Incident() | UndecodableObject():
                    pass


def exchange(
    protocol: ListWatch,
    request: ApiRequest,
    server: Server,
    outcome: Outcome | Status,
    now: float,
) -> list[Output]:
    """One request and what becomes of it."""
    if isinstance(outcome, Status):
        return protocol.refused(outcome)
    if outcome is Outcome.UNREACHABLE:
        protocol.disconnected(now)
        return []
    if not request.watch:
        return _listed(protocol, server.list(), outcome, now)
    outputs: list[Output] = [*protocol.opened(now)]
    stream = server.stream(dict(request.query))
    end = len(stream) if outcome is Outcome.NONE else len(stream) // 2
    outputs += protocol.receive(stream[:end])
    return outputs + _ended(protocol, outcome, now + 20)


def _listed(protocol: ListWatch, body: bytes, outcome: Outcome, now: float) -> list[Output]:
    if outcome is Outcome.NONE:
        return listed(protocol, body)
    half = body[: len(body) // 2]
    if outcome is Outcome.GARBAGE:
        return listed(protocol, half)
    protocol.list_opened()
    outputs = list(protocol.receive_list(half))
    protocol.disconnected(now)
    return outputs


def _ended(protocol: ListWatch, outcome: Outcome, now: float) -> list[Output]:
    match outcome:
        case Outcome.GARBAGE:
            return [*protocol.receive(b"<html>\n")]
        case Outcome.CLOSED | Outcome.NONE:
            return protocol.closed(now)
        case Outcome.SILENT:
            return [output for _ in range(6) for output in protocol.idle(now)]
        case _:
            protocol.disconnected(now)
            return []


@given(st.lists(st.tuples(CHANGES, OUTCOMES), max_size=25), st.booleans())
def test_whatever_happens_the_consumer_ends_with_what_the_server_has(
    story: list[tuple[list[tuple[str, bool]], Outcome | Status]],
    watch_list: bool,  # drawn by hypothesis
) -> None:
    protocol = ListWatch(SERVICES, watch_list=watch_list)
    server, consumer, now = Server(), Consumer(), 0.0
    peace: list[tuple[list[tuple[str, bool]], Outcome | Status]] = [([], Outcome.NONE)] * 4
    for changes, outcome in story + peace:
        for name, write in changes:
            server.change(name, write=write)
        request = protocol.next_request(now, 0.0)
        now += request.delay
        consumer.observe(exchange(protocol, request, server, outcome, now))
        now += 30
    assert server.objects == consumer.objects


@given(
    st.lists(st.tuples(CHANGES, st.sampled_from([Outcome.CUT, Outcome.UNREACHABLE])), max_size=20)
)
def test_cuts_alone_never_cause_a_relist(
    story: list[tuple[list[tuple[str, bool]], Outcome]],
) -> None:
    protocol = ListWatch(SERVICES)
    server, now = Server(), 0.0
    exchange(protocol, protocol.next_request(now, 0.0), server, Outcome.NONE, now)
    for changes, outcome in story:
        for name, write in changes:
            server.change(name, write=write)
        now += 30
        request = protocol.next_request(now, 0.0)
        assert "sendInitialEvents" not in dict(request.query)
        assert request.watch
        exchange(protocol, request, server, outcome, now)
