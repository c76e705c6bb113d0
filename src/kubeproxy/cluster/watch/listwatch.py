"""The list+watch protocol for one resource: answers and bytes in, events and requests out.

Law: no I/O, no clock, no dice in here. The caller asks `next_request`, waits as long as it says,
sends it, and reports what came of it:

    refused(status)          the server answered, but not with 200
    received_list(body)      the whole body of a list
    opened(now)              a watch was answered with 200; then receive(chunk) for what comes,
                             as long as `streaming`; closed(now) when the server ended it in
                             order, quiet(now) when nothing came for `patience` seconds
    broke(now)               nobody answered, or the answer was cut

Theory of operation. A *telling* is Reset, everything there is, Synced. It comes from a watch-list
stream (preferred: small in memory, and the watch goes on on the same stream) or from a list, page
by page. After it, a watch carries the changes, and `_version` is the version up to which all has
been told. A telling sets it only when complete, so that a broken one is never resumed.

A cut, a refused connection or a server that says "not now" leads to a watch from `_version`: no
telling, nothing lost. Whatever raises doubt about `_version` or about the stream (expired, ERROR
event, garbage, closed at once, silent from beginning to end) leads to a new telling.
"""

from collections.abc import Iterator
from enum import Enum
from http import HTTPStatus

import msgspec

from kubeproxy.cluster.client.resources import (
    PAGE_SIZE,
    Query,
    Resource,
    list_query,
    watch_list_query,
    watch_query,
)
from kubeproxy.cluster.client.status import Status, decode_status
from kubeproxy.cluster.events import Delete, Event, Reset, Synced, Upsert
from kubeproxy.cluster.objects.decode import KubeObject, UndecodableObject, decode
from kubeproxy.cluster.objects.meta import ObjectMeta
from kubeproxy.cluster.watch import wire
from kubeproxy.cluster.watch.backoff import Backoff
from kubeproxy.cluster.watch.ledger import Ledger
from kubeproxy.cluster.watch.lines import LineSplitter, LineTooLong
from kubeproxy.cluster.watch.setbacks import Reason, Saying, Setback, Skipped

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


class _Step(Enum):
    WATCH_LIST = 1
    LIST = 2
    WATCH = 3


class _Stream:
    """One open watch."""

    def __init__(self, opened: float) -> None:
        self.opened = opened
        self.lines = LineSplitter()
        self.heard = 0
        self.bookmarked = False
        self.waits = 0


class ListWatch:
    """Follows one resource. `watch_list=False` never asks for a watch-list."""

    def __init__(self, resource: Resource, *, watch_list: bool = True) -> None:
        self._resource = resource
        self._kind = resource.kind
        self._first_step = _Step.WATCH_LIST if watch_list else _Step.LIST
        self._step = self._first_step
        # How to wait before the next request: a server that just came back is not to be blamed
        # for its absence when everything must be told anew, so that those waits count apart.
        self._pause: Backoff | None = None
        self._reconnecting = Backoff()
        self._telling_anew = Backoff()
        self._seconds = 0
        # Up to where all has been told, and whether a server has rejected that.
        self._version = ""
        self._version_usable = True
        # The list under way.
        self._asked_version = ""
        self._token = ""
        self._whole = False
        self._cache_pages = False
        self._ledger = Ledger()
        self._stream: _Stream | None = None

    @property
    def streaming(self) -> bool:
        """Whether there is an open stream that should be read on."""
        return self._stream is not None

    @property
    def told(self) -> bool:
        """Whether the consumer has everything, so that only changes are to be told."""
        return self._step is _Step.WATCH

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

    # --- what to ask --------------------------------------------------------------------------

    def next_request(self, now: float, chance: float) -> Request:
        """What to ask next; `chance` in [0, 1) spreads the waits and the lives of watches."""
        delay = self._pause.delay(now, chance) if self._pause is not None else 0.0
        self._pause = None
        self._seconds = int(300 + 300 * chance)
        version = self._version if self._version_usable else ""
        if self._step is _Step.LIST:
            return Request(Verb.LIST, self._list_query(version), delay)
        if self._step is _Step.WATCH_LIST:
            self._asked_version = version
            query = watch_list_query(self._resource, version, self._seconds)
        else:
            query = watch_query(self._resource, self._version, self._seconds)
        return Request(Verb.WATCH, query, delay)

    def _list_query(self, version: str) -> Query:
        if self._token:
            return list_query(self._resource, page_size=PAGE_SIZE, token=self._token)
        if not self._whole:
            # "0" lets the server answer the first list from its cache, however old.
            self._asked_version = version or ("0" if self._version_usable else "")
        # A server answers a paged list at a version from etcd, a whole one from its cache.
        paged = not self._whole and (not version or self._cache_pages)
        page_size = PAGE_SIZE if paged else 0
        return list_query(self._resource, version=self._asked_version, page_size=page_size)

    # --- the answer is a refusal, or none -----------------------------------------------------

    def refused(self, status: Status) -> Setback | None:
        """The server answered with something else than 200; None when all is in order still."""
        if self._step is _Step.WATCH_LIST:
            return self._watch_list_refused(status)
        if self._step is _Step.LIST:
            return self._list_refused(status)
        return self._watch_refused(status, Reason.REFUSED)

    def _watch_list_refused(self, status: Status) -> Setback | None:
        self._stream = None
        self._ledger.abandon()
        if status.stale and self._asked_version:
            self._version_usable = False
            return None
        if status.code == HTTPStatus.TOO_MANY_REQUESTS:
            self._pause = self._reconnecting
            return Setback(Reason.NOT_NOW, status)
        self._step = _Step.LIST
        return Setback(Reason.NOT_STREAMED, status)

    def _list_refused(self, status: Status) -> Setback | None:
        if status.stale and self._token:
            # The snapshot that the pages come from is gone: one list without pages instead.
            self._token, self._whole = "", True
            return None
        if status.stale and self._asked_version:
            self._version_usable, self._whole = False, False
            return None
        return self._tell_anew(Reason.REFUSED, status)

    def _watch_refused(self, status: Status, otherwise: Reason) -> Setback:
        if status.stale:
            return self._tell_anew(Reason.EXPIRED, status)
        if status.not_now:
            self._stream, self._pause = None, self._reconnecting
            return Setback(Reason.NOT_NOW, status)
        return self._tell_anew(otherwise, status)

    def broke(self, now: float) -> None:
        """Nobody answered, or the answer was cut; what was told stays told."""
        stream, self._stream, self._pause = self._stream, None, self._reconnecting
        if self._step is _Step.WATCH_LIST:
            self._ledger.abandon()
        elif stream is not None:
            self._resume(stream, now)

    def _resume(self, stream: _Stream, now: float) -> None:
        """Open the watch again, at once or after a pause: a short one when it brought changes."""
        self._stream = None
        if stream.heard:
            self._reconnecting = Backoff()
        is_short = now - stream.opened < SHORTEST_WATCH
        self._pause = self._reconnecting if is_short else None

    def _tell_anew(
        self, reason: Reason, status: Status | None = None, detail: str = ""
    ) -> Setback:
        """Begin from the beginning, after a pause."""
        self._step, self._pause = self._first_step, self._telling_anew
        self._token, self._whole = "", False
        self._stream = None
        self._ledger.abandon()
        return Setback(reason, status, detail)

    def _list_instead(self, reason: Reason, detail: str = "") -> Setback:
        """Give up this watch-list, without a pause."""
        self._step = _Step.LIST
        self._stream = None
        self._ledger.abandon()
        return Setback(reason, None, detail)

    # --- the answer is a list -----------------------------------------------------------------

    def received_list(self, body: bytes | bytearray) -> Iterator[Saying]:
        """The body of a list, or of one page of it; objects are decoded one at a time.

        The iterator must be read to its end: the machine moves while it is read.
        """
        try:
            page = wire.decode_page(body)
        except wire.NotTheProtocol as error:
            yield self._tell_anew(Reason.GARBAGE, detail=str(error))
            return
        if not self._token:
            self._ledger.begin()
            yield Reset(self._kind)
        for raw in page.items or ():
            yield self._upsert(raw)
        self._token = page.metadata.token
        if not self._token:
            yield from self._complete(page.metadata.version)
        elif self._asked_version == "0":
            self._cache_pages = True

    def _complete(self, version: str) -> list[Event]:
        """The telling is complete.

        Synced would remove what could not be read this time, so that a telling with such an
        object ends with a Delete for each one that is really gone, and without Synced.
        """
        self._version, self._version_usable = version, True
        self._step, self._whole = _Step.WATCH, False
        gone = self._ledger.complete()
        if gone is None:
            return [Synced(self._kind)]
        return [Delete(self._kind, key) for key in gone]

    # --- the answer is a stream ---------------------------------------------------------------

    def opened(self, now: float) -> list[Event]:
        """The server answered a watch with 200."""
        self._stream = _Stream(now)
        if self._step is _Step.WATCH:
            return []
        self._ledger.begin()
        return [Reset(self._kind)]

    def receive(self, chunk: bytes) -> Iterator[Saying]:
        """Bytes of the stream, cut anywhere.

        The iterator must be read to its end: the machine moves while it is read.
        """
        stream = self._stream
        if stream is None:
            return
        try:
            for line in stream.lines.feed(chunk):
                yield from self._event(stream, line)
                if self._stream is None:
                    return
        except (LineTooLong, wire.NotTheProtocol) as error:
            if self._step is _Step.WATCH_LIST:
                yield self._list_instead(Reason.GARBAGE, str(error))
            else:
                yield self._tell_anew(Reason.GARBAGE, detail=str(error))

    def closed(self, now: float) -> list[Saying]:
        """The server ended the stream in order; an unfinished line still counts if it reads."""
        stream = self._stream
        if stream is None:
            return []
        rest = stream.lines.finish()
        sayings = list(self.receive(rest + b"\n")) if rest else []
        return sayings if self._stream is None else sayings + self._ended(stream, now)

    def _ended(self, stream: _Stream, now: float) -> list[Saying]:
        lived = now - stream.opened
        at_once = lived < SHORTEST_WATCH and not stream.heard
        if self._step is _Step.WATCH_LIST:
            begin = self._list_instead if at_once else self._tell_anew
            return [begin(Reason.UNFINISHED)]
        if at_once:
            return [self._tell_anew(Reason.SHORT)]
        if not stream.heard and lived >= SUSPICIOUS_SILENCE:
            # A watch from a version that the server has yet to reach is silent: after a restore
            # of etcd that can last for days.
            return [self._tell_anew(Reason.SUSPECT)]
        self._resume(stream, now)
        return []

    def quiet(self, now: float) -> list[Setback]:
        """Nothing came for `patience` seconds."""
        stream = self._stream
        if stream is None:
            return []
        if self._step is not _Step.WATCH_LIST:
            self.broke(now)
            return [Setback(Reason.SILENT)]
        stream.waits += 1
        if stream.waits < FIRST_BOOKMARK_TRIES:
            return [Setback(Reason.NO_BOOKMARK)]
        return [self._list_instead(Reason.NEVER_COMPLETE)]

    def _event(self, stream: _Stream, line: bytes) -> Iterator[Saying]:
        stream.heard += 1
        told = wire.decode_told(self._kind, line)
        if told is not None:
            yield self._upserted(told)
            return
        event = wire.decode_event(line)
        match event.type:
            case "ADDED" | "MODIFIED":
                yield self._upsert(event.object)
            case "DELETED":
                yield self._delete(wire.decode_metadata(event.object))
            case "BOOKMARK":
                yield from self._bookmark(stream, wire.decode_metadata(event.object))
            case "ERROR":
                yield from self._error_event(decode_status(event.object))
            case _:
                yield Setback(Reason.UNKNOWN_EVENT, detail=event.type)

    def _upsert(self, raw: msgspec.Raw) -> Upsert | Skipped:
        try:
            found = decode(self._kind, raw)
        except UndecodableObject as error:
            version = wire.version_in(raw)
            self._advance(version)
            self._ledger.unreadable(error.key)
            return Skipped(error, version)
        return self._upserted(found)

    def _upserted(self, found: KubeObject) -> Upsert:
        self._advance(found.metadata.resource_version)
        self._ledger.upserted(found.metadata.key)
        return Upsert(self._kind, found)

    def _delete(self, metadata: ObjectMeta) -> Delete:
        """A deletion needs no more than the name, so that it never fails for other fields."""
        self._advance(metadata.resource_version)
        self._ledger.deleted(metadata.key)
        return Delete(self._kind, metadata.key)

    def _advance(self, version: str) -> None:
        """All up to this version has been told, unless a telling is under way."""
        if version and not self._ledger.telling:
            self._version = version

    def _bookmark(self, stream: _Stream, metadata: ObjectMeta) -> list[Event]:
        stream.bookmarked = True
        self._advance(metadata.resource_version)
        ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        if not ends or not self._ledger.telling:
            return []
        if not metadata.resource_version:
            raise wire.NotTheProtocol("the last initial event has no resourceVersion")
        return self._complete(metadata.resource_version)

    def _error_event(self, status: Status) -> list[Setback]:
        if self._step is _Step.WATCH:
            return [self._watch_refused(status, Reason.ERROR_EVENT)]
        setback = self._watch_list_refused(status)
        return [] if setback is None else [setback]
