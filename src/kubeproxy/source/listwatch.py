"""The list+watch protocol for one resource: answers and bytes in, events and requests out.

Law: no I/O, no clock, no dice in here. The caller asks `next_request`, waits as long as it says,
sends it, and reports what came of it with exactly one of

    refused(status)               the server answered, but not with 200
    received_list(body)           the whole body of a list
    opened(now), receive(chunk)…  a stream; then closed(now) when the server ended it in order,
                                  or broke(now) when it was cut; stop reading as soon as
                                  `streaming` is false, and call `quiet(now)` when nothing came
                                  for `patience` seconds
    broke(now)                    nobody answered

Theory of operation. A *telling* is Reset, everything there is, Synced. It comes from a watch-list
stream (preferred: small in memory, and the watch goes on on the same stream) or from a list, page
by page. After it, a watch carries the changes, and `_version` is the version up to which all has
been told; only a complete telling sets it first, so that a broken one is never resumed.

A cut, a refused connection or a server that says "not now" leads to a watch from `_version`: no
telling, nothing lost. Anything that raises doubt about `_version` or the stream (expired, ERROR
event, garbage, closed at once, silent from beginning to end) leads to a new telling.
"""

from collections.abc import Iterator
from enum import Enum

import msgspec

from kubeproxy.errors import ApiServerError
from kubeproxy.objects.decode import UndecodableObject, decode
from kubeproxy.objects.meta import ObjectKey, ObjectMeta
from kubeproxy.source.backoff import Backoff
from kubeproxy.source.events import Delete, Event, Reset, Synced, Upsert
from kubeproxy.source.lines import LineSplitter, LineTooLong
from kubeproxy.source.resources import (
    PAGE_SIZE,
    Query,
    Resource,
    list_query,
    watch_list_query,
    watch_query,
)
from kubeproxy.source.status import Status, decode_status

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SHORTEST_WATCH = 1.0
FIRST_BOOKMARK_WAIT = 10.0
FIRST_BOOKMARK_TRIES = 6
BOOKMARK_CADENCE = 60.0
SILENCE_AFTER_BOOKMARK = 3 * BOOKMARK_CADENCE
SILENCE_MARGIN = 30.0
SUSPICIOUS_SILENCE = 2.5 * BOOKMARK_CADENCE


class Verb(Enum):
    """How to read the answer: as a whole, or as a stream of lines."""

    LIST = "list"
    WATCH = "watch"


class Request(msgspec.Struct, frozen=True):
    """What to ask next, after waiting so many seconds."""

    verb: Verb
    query: Query
    delay: float = 0.0


class Reason(Enum):
    """Why things did not go straight on; the value is what a log says."""

    NOT_STREAMED = "The server refuses the watch-list, a list is tried instead"
    EXPIRED = "The version to resume from has expired, everything is told anew"
    REFUSED = "The server refused"
    NOT_NOW = "The server is not ready to answer"
    ERROR_EVENT = "The server ended the watch with an error event"
    GARBAGE = "The server sent something that is not its protocol"
    SHORT = "The server closed the watch at once"
    UNFINISHED = "The server closed the watch-list before it was complete"
    NO_BOOKMARK = "The server has not completed the watch-list yet"
    NEVER_COMPLETE = "The server does not complete the watch-list, a list is tried instead"
    SILENT = "The watch had no sign of life, it is opened again"
    SUSPECT = "The watch had no bookmark from beginning to end, everything is told anew"
    UNKNOWN_EVENT = "An event of unknown type is skipped"


class Setback(msgspec.Struct, frozen=True):
    """Something that an operator may want to hear of; the machine has dealt with it."""

    reason: Reason
    status: Status | None = None
    detail: str = ""


class Skipped(msgspec.Struct, frozen=True):
    """An object that does not decode; what was known of it before stands."""

    error: UndecodableObject
    version: str


Saying = Event | Setback | Skipped


class _Step(Enum):
    WATCH_LIST = 1
    LIST = 2
    WATCH = 3


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Named(msgspec.Struct):
    metadata: ObjectMeta


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    token: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_event_decoder = msgspec.json.Decoder(_WatchEvent)
_name_decoder = msgspec.json.Decoder(_Named)
_list_decoder = msgspec.json.Decoder(_List)


class _NotTheProtocol(ApiServerError):
    """Bytes that no API server sends."""


class _Telling:
    """What has been told since Reset: keys only, because objects are not kept here."""

    def __init__(self) -> None:
        self.told: set[ObjectKey] = set()
        self.unreadable: set[ObjectKey] = set()


class _Stream:
    """One open watch."""

    def __init__(self, opened: float) -> None:
        self.opened = opened
        self.lines = LineSplitter()
        self.heard = 0
        self.bookmarked = False
        self.waits = 0


class ListWatch:
    """Follows one resource."""

    def __init__(self, resource: Resource, *, watch_list: bool = True) -> None:
        self._resource = resource
        self._kind = resource.kind
        self._first_step = _Step.WATCH_LIST if watch_list else _Step.LIST
        self._step = self._first_step
        self._version = ""
        self._version_usable = True
        self._backoff = Backoff()
        self._pause = False
        self._seconds = 0
        self._asked_version = ""
        self._token = ""
        self._whole = False
        self._cache_pages = False
        self._known: set[ObjectKey] = set()
        self._telling: _Telling | None = None
        self._stream: _Stream | None = None

    @property
    def streaming(self) -> bool:
        """Whether there is an open stream that should be read on."""
        return self._stream is not None

    @property
    def patience(self) -> float:
        """Seconds without a byte after which to call `quiet`.

        A stream that has carried a bookmark carries one about each minute; one that has not must
        at least end when the server was asked to end it.
        """
        if self._step is _Step.WATCH_LIST:
            return FIRST_BOOKMARK_WAIT
        if self._stream is not None and self._stream.bookmarked:
            return SILENCE_AFTER_BOOKMARK
        return self._seconds + SILENCE_MARGIN

    def next_request(self, now: float, chance: float) -> Request:
        """What to ask next; `chance` in [0, 1) spreads waits and the lives of watches."""
        delay = self._backoff.delay(now, chance) if self._pause else 0.0
        self._pause = False
        self._seconds = int(300 + 300 * chance)
        version = self._version if self._version_usable else ""
        match self._step:
            case _Step.WATCH:
                query = watch_query(self._resource, self._version, self._seconds)
            case _Step.WATCH_LIST:
                self._asked_version = version
                query = watch_list_query(self._resource, version, self._seconds)
            case _Step.LIST:
                return Request(Verb.LIST, self._list_query(version), delay)
        return Request(Verb.WATCH, query, delay)

    def _list_query(self, version: str) -> Query:
        """A first list may come from the server's cache; a later one may not be older than we."""
        if self._token:
            return list_query(self._resource, page_size=PAGE_SIZE, token=self._token)
        if not self._whole:
            self._asked_version = version or ("0" if self._version_usable else "")
        # A server answers a paged list at a version from etcd, a whole one from its cache.
        paged = not self._whole and (not version or self._cache_pages)
        page_size = PAGE_SIZE if paged else 0
        return list_query(self._resource, version=self._asked_version, page_size=page_size)

    # --- the answer is a refusal, or none --------------------------------------------------

    def refused(self, status: Status) -> Setback | None:
        """The server answered with something else than 200; None when the next try is at once."""
        match self._step:
            case _Step.WATCH_LIST:
                return self._watch_list_refused(status)
            case _Step.LIST:
                return self._list_refused(status)
            case _Step.WATCH if status.not_now and not status.stale:
                self._pause = True
                return Setback(Reason.NOT_NOW, status)
            case _Step.WATCH:
                return self._end_round(Reason.EXPIRED if status.stale else Reason.REFUSED, status)

    def _watch_list_refused(self, status: Status) -> Setback | None:
        self._stream = None
        if status.stale and self._asked_version:
            self._version_usable = False
            return None
        if status.not_now and not status.stale:
            self._pause = True
            return Setback(Reason.NOT_NOW, status)
        self._step = _Step.LIST
        return Setback(Reason.NOT_STREAMED, status)

    def _list_refused(self, status: Status) -> Setback | None:
        if self._token and status.stale:
            # The snapshot that the pages come from is gone: one list without pages instead.
            self._token, self._whole, self._telling = "", True, None
            return None
        if status.stale and self._asked_version:
            self._version_usable, self._whole = False, False
            return None
        return self._end_round(Reason.REFUSED, status)

    def broke(self, now: float) -> None:
        """Nobody answered, or the stream was cut; what was told stays told."""
        stream, self._stream = self._stream, None
        lived = stream is not None and now - stream.opened >= SHORTEST_WATCH
        heard = stream is not None and stream.heard > 0
        self._pause = self._step is not _Step.WATCH or not (lived or heard)
        if self._step is _Step.WATCH_LIST:
            self._telling = None

    def _end_round(
        self, reason: Reason, status: Status | None = None, detail: str = ""
    ) -> Setback:
        """Begin from the beginning, after a pause."""
        self._step = self._first_step
        self._pause = True
        self._token, self._whole = "", False
        self._telling = None
        self._stream = None
        return Setback(reason, status, detail)

    def _stream_failed(self, reason: Reason, detail: str) -> Setback:
        """The stream makes no sense: a list instead of a watch-list, or a new telling."""
        setback = self._end_round(reason, detail=detail)
        return setback

    # --- the answer is a list -----------------------------------------------------------------

    def received_list(self, body: bytes | bytearray) -> Iterator[Saying]:
        """The body of a list, or of one page of it; objects are decoded one at a time."""
        try:
            page = _list_decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield self._end_round(Reason.GARBAGE, detail=str(error))
            return
        if not page.metadata.version:
            yield self._end_round(Reason.GARBAGE, detail="the list has no resourceVersion")
            return
        telling = self._telling
        if not self._token or telling is None:
            telling = self._telling = _Telling()
            yield Reset(self._kind)
        for raw in page.items or ():
            yield self._upsert(raw)
        if page.metadata.token and self._asked_version == "0":
            self._cache_pages = True
        self._token = page.metadata.token
        if not self._token:
            yield from self._complete(telling, page.metadata.version)

    def _complete(self, telling: _Telling, version: str) -> Iterator[Event]:
        """The telling is complete.

        Synced would remove what could not be read this time, so that a telling with such an
        object ends with a Delete for each one that is really gone, and without Synced.
        """
        kept = telling.unreadable & self._known
        gone = self._known - telling.told - kept
        self._known = telling.told | kept
        self._telling = None
        self._version, self._version_usable = version, True
        self._step, self._whole = _Step.WATCH, False
        if kept:
            yield from (Delete(self._kind, key) for key in sorted(gone))
        else:
            yield Synced(self._kind)

    # --- the answer is a stream ---------------------------------------------------------------

    def opened(self, now: float) -> Iterator[Saying]:
        """The server answered a watch with 200."""
        self._stream = _Stream(now)
        if self._step is _Step.WATCH_LIST:
            self._telling = _Telling()
            yield Reset(self._kind)

    def receive(self, chunk: bytes) -> Iterator[Saying]:
        """Bytes of the stream, cut anywhere."""
        stream = self._stream
        if stream is None:
            return
        try:
            for line in stream.lines.feed(chunk):
                yield from self._event(stream, line)
                if self._stream is None:
                    return
        except (LineTooLong, _NotTheProtocol) as error:
            yield self._garbage(str(error))

    def _garbage(self, detail: str) -> Setback:
        if self._step is _Step.WATCH_LIST:
            self._step, self._stream, self._telling = _Step.LIST, None, None
            return Setback(Reason.GARBAGE, detail=detail)
        return self._end_round(Reason.GARBAGE, detail=detail)

    def _event(self, stream: _Stream, line: bytes) -> Iterator[Saying]:
        try:
            event = _event_decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _NotTheProtocol(f"not a watch event: {error}") from error
        stream.heard += 1
        match event.type:
            case "ADDED" | "MODIFIED":
                yield self._upsert(event.object)
            case "DELETED":
                yield self._delete(_metadata(event.object))
            case "BOOKMARK":
                yield from self._bookmark(stream, _metadata(event.object))
            case "ERROR":
                setback = self._error_event(decode_status(event.object))
                if setback is not None:
                    yield setback
            case _:
                yield Setback(Reason.UNKNOWN_EVENT, detail=event.type)

    def _upsert(self, raw: msgspec.Raw) -> Upsert | Skipped:
        try:
            found = decode(self._kind, raw)
        except UndecodableObject as error:
            version = _version_in(raw)
            self._advance(version)
            if self._telling is not None and error.key is not None:
                self._telling.unreadable.add(error.key)
            return Skipped(error, version)
        self._advance(found.metadata.resource_version)
        told = self._known if self._telling is None else self._telling.told
        told.add(found.metadata.key)
        return Upsert(self._kind, found)

    def _delete(self, metadata: ObjectMeta) -> Delete:
        """A deletion needs no more than the name, so that it never fails for other fields."""
        self._advance(metadata.resource_version)
        told = self._known if self._telling is None else self._telling.told
        told.discard(metadata.key)
        return Delete(self._kind, metadata.key)

    def _advance(self, version: str) -> None:
        """All up to this version has been told, unless a telling is under way."""
        if self._telling is None and version:
            self._version = version

    def _bookmark(self, stream: _Stream, metadata: ObjectMeta) -> Iterator[Event]:
        stream.bookmarked = True
        self._advance(metadata.resource_version)
        ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        if self._telling is not None and ends:
            yield from self._complete(self._telling, metadata.resource_version)

    def _error_event(self, status: Status) -> Setback | None:
        if self._step is _Step.WATCH_LIST:
            self._telling = None
            return self._watch_list_refused(status)
        if status.not_now and not status.stale:
            self._stream, self._pause = None, True
            return Setback(Reason.NOT_NOW, status)
        reason = Reason.EXPIRED if status.stale else Reason.ERROR_EVENT
        return self._end_round(reason, status)

    def closed(self, now: float) -> Iterator[Saying]:
        """The server ended the stream in order; an unfinished line still counts if it reads."""
        stream = self._stream
        if stream is None:
            return
        rest = stream.lines.finish()
        if rest:
            yield from self.receive(rest + b"\n")
        if self._stream is None:
            return
        self._stream = None
        lived = now - stream.opened
        at_once = lived < SHORTEST_WATCH and not stream.heard
        if self._step is _Step.WATCH_LIST:
            self._telling = None
            self._step = _Step.LIST if at_once else _Step.WATCH_LIST
            self._pause = not at_once
            yield Setback(Reason.UNFINISHED)
        elif at_once:
            yield self._end_round(Reason.SHORT)
        elif not stream.heard and lived >= SUSPICIOUS_SILENCE:
            # A watch from a version that the server has yet to reach is silent: after a restore
            # of etcd that would last for days.
            yield self._end_round(Reason.SUSPECT)

    def quiet(self, now: float) -> Setback | None:
        """Nothing came for `patience` seconds."""
        stream = self._stream
        if stream is None:
            return None
        if self._step is not _Step.WATCH_LIST:
            self.broke(now)
            return Setback(Reason.SILENT)
        stream.waits += 1
        if stream.waits < FIRST_BOOKMARK_TRIES:
            return Setback(Reason.NO_BOOKMARK)
        self._step, self._stream, self._telling = _Step.LIST, None, None
        return Setback(Reason.NEVER_COMPLETE)


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    try:
        return _name_decoder.decode(raw).metadata
    except msgspec.MsgspecError as error:
        raise _NotTheProtocol(f"an event whose object has no readable metadata: {error}") from error


def _version_in(raw: msgspec.Raw) -> str:
    try:
        return _metadata(raw).resource_version
    except _NotTheProtocol:
        return ""
