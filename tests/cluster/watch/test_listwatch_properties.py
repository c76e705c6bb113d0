"""What holds for every stream, however it is cut, and for every kind of trouble."""

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
    page,
    service,
    unreadable,
)
from kubeproxy.cluster.client.resources import SERVICES
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Delete, Reset, Synced, Upsert
from kubeproxy.cluster.watch.listwatch import ListWatch, Request, Verb
from kubeproxy.cluster.watch.setbacks import Saying, Setback, Skipped

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


def comparable(sayings: Iterable[Saying]) -> list[object]:
    """Sayings without the exceptions in them, which are equal to nothing."""
    return [
        (saying.error.key, saying.version) if isinstance(saying, Skipped) else saying
        for saying in sayings
    ]


def heard(pieces: Iterable[bytes]) -> list[object]:
    machine = ListWatch(SERVICES)
    machine.next_request(0.0, 0.0)
    sayings: list[Saying] = [*machine.opened(0.0)]
    for piece in pieces:
        sayings += machine.receive(piece)
    return comparable([*sayings, *machine.closed(400.0)])


WHOLE = heard([STREAM])


def test_a_stream_byte_by_byte_says_the_same_as_in_one_piece() -> None:
    assert heard(STREAM[at : at + 1] for at in range(len(STREAM))) == WHOLE
    assert len(WHOLE) == 8


@given(st.lists(st.integers(0, len(STREAM)), max_size=20).map(sorted))
def test_however_a_stream_is_cut_it_says_the_same(cuts: list[int]) -> None:
    edges = [0, *cuts, len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(edges)]
    assert heard(pieces) == WHOLE


@given(st.binary(max_size=200))
def test_no_bytes_are_able_to_crash_the_machine(data: bytes) -> None:
    heard([STREAM, data + b"\n"])
    machine = ListWatch(SERVICES, watch_list=False)
    machine.next_request(0.0, 0.0)
    list(machine.received_list(data))


# --- a server in trouble ----------------------------------------------------------------------


class Trouble(Enum):
    """What can become of a request."""

    NONE = "served"
    UNREACHABLE = "nobody answers"
    CUT = "cut half way"
    CLOSED = "closed half way"
    GARBAGE = "garbage half way"
    SILENT = "falls silent half way"


REFUSALS = [EXPIRED, TOO_LARGE, GATE_OFF, FORBIDDEN, BUSY, BROKEN, UNAVAILABLE]
OUTCOMES = st.one_of(st.sampled_from(list(Trouble)), st.sampled_from(REFUSALS))
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
            told = [event("ADDED", service(*each)) for each in self.objects.items()]
            return b"".join([*told, bookmark(str(self.version), ends=True)])
        since = int(query["resourceVersion"])
        return b"".join(line for version, line in self._history if version > since)


class Consumer:
    """Keeps what it had until Synced, as the contract of the events says."""

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self._untold: set[str] = set()

    def observe(self, sayings: Iterable[Saying]) -> None:
        for saying in sayings:
            match saying:
                case Reset():
                    self._untold = set(self.objects)
                case Upsert(object=found):
                    name = found.metadata.name
                    self.objects[name] = int(found.metadata.resource_version)
                    self._untold.discard(name)
                case Delete(key=key):
                    self.objects.pop(key.name, None)
                case Synced():
                    for name in self._untold:
                        self.objects.pop(name, None)
                case Setback() | Skipped():
                    pass


def exchange(
    machine: ListWatch,
    request: Request,
    server: Server,
    outcome: Trouble | Status,
    now: float,
) -> list[Saying]:
    """One request and what becomes of it."""
    if isinstance(outcome, Status):
        setback = machine.refused(outcome)
        return [] if setback is None else [setback]
    if outcome is Trouble.UNREACHABLE:
        machine.broke(now)
        return []
    if request.verb is Verb.LIST:
        return _listed(machine, server.list(), outcome, now)
    sayings: list[Saying] = [*machine.opened(now)]
    stream = server.stream(dict(request.query))
    end = len(stream) if outcome is Trouble.NONE else len(stream) // 2
    sayings += machine.receive(stream[:end])
    return sayings + _ended(machine, outcome, now + 20)


def _listed(machine: ListWatch, body: bytes, outcome: Trouble, now: float) -> list[Saying]:
    if outcome is Trouble.NONE:
        return list(machine.received_list(body))
    if outcome is Trouble.GARBAGE:
        return list(machine.received_list(body[: len(body) // 2]))
    machine.broke(now)
    return []


def _ended(machine: ListWatch, outcome: Trouble, now: float) -> list[Saying]:
    match outcome:
        case Trouble.GARBAGE:
            return [*machine.receive(b"<html>\n")]
        case Trouble.CLOSED | Trouble.NONE:
            return machine.closed(now)
        case Trouble.SILENT:
            return [setback for _ in range(6) for setback in machine.quiet(now)]
        case _:
            machine.broke(now)
            return []


@given(st.lists(st.tuples(CHANGES, OUTCOMES), max_size=25), st.booleans())
def test_whatever_happens_the_consumer_ends_with_what_the_server_has(
    story: list[tuple[list[tuple[str, bool]], Trouble | Status]],
    watch_list: bool,  # drawn by hypothesis
) -> None:
    machine = ListWatch(SERVICES, watch_list=watch_list)
    server, consumer, now = Server(), Consumer(), 0.0
    peace: list[tuple[list[tuple[str, bool]], Trouble | Status]] = [([], Trouble.NONE)] * 4
    for changes, outcome in story + peace:
        for name, write in changes:
            server.change(name, write=write)
        request = machine.next_request(now, 0.0)
        now += request.delay
        consumer.observe(exchange(machine, request, server, outcome, now))
        now += 30
    assert server.objects == consumer.objects


@given(
    st.lists(st.tuples(CHANGES, st.sampled_from([Trouble.CUT, Trouble.UNREACHABLE])), max_size=20)
)
def test_cuts_alone_never_cause_a_second_telling(
    story: list[tuple[list[tuple[str, bool]], Trouble]],
) -> None:
    machine = ListWatch(SERVICES)
    server, now = Server(), 0.0
    exchange(machine, machine.next_request(now, 0.0), server, Trouble.NONE, now)
    for changes, outcome in story:
        for name, write in changes:
            server.change(name, write=write)
        now += 30
        request = machine.next_request(now, 0.0)
        assert "sendInitialEvents" not in dict(request.query)
        assert Verb.WATCH is request.verb
        exchange(machine, request, server, outcome, now)
