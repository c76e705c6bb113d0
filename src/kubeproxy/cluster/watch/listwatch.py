"""The list and watch protocol for one resource: responses in, requests and events out.

No I/O, no clock, no random numbers in here. The caller takes `next_request`, waits for its delay,
sends it, and reports what happened:

    refused(status)          the server answered with another status than 200
    list_opened(encoding)  a list, or a page of it, was answered with 200; then receive_list(chunk)
                             for its bytes, and listed() at their end
    opened(now, encoding)    a watch was answered with 200; then receive(chunk) for its bytes as
                             long as `streaming`, closed(now) when the server ended it properly,
                             idle(now) when nothing came for `idle_timeout` seconds
    disconnected(now)        there was no response, or it was cut off

The phases:

    WATCH_LIST  one stream that first has all objects, up to a bookmark, and then the changes.
                LIST is the fallback for one round; of a list that breaks off, this is.
    LIST        all objects, in one response or in pages; then WATCH.
    WATCH       the changes since `_version`.

A list delivers Reset, all objects, Synced. `_version` is the resourceVersion up to which all
changes were delivered. A list sets it when it is complete, so an incomplete one is never resumed.
A watch that is cut off, or refused for now, is resumed from `_version`. Whatever casts doubt on
`_version` or on the stream (expired, ERROR event, invalid data, closed at once, no event at all,
a watch that stays refused) leads to a relist.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from http import HTTPStatus

import msgspec

from kubeproxy.cluster.client.contenttypes import ONLY_JSON, Accepts
from kubeproxy.cluster.client.resources import (
    PAGE_SIZE,
    Query,
    Resource,
    list_query,
    watch_query,
)
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Delete, Event, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.objects.meta import ObjectMeta
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.cluster.watch import wire
from kubeproxy.cluster.watch.backoff import Backoff
from kubeproxy.cluster.watch.incidents import Incident, IncidentReason, Output
from kubeproxy.cluster.watch.wire import Encoding

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SHORTEST_WATCH = 1.0
FIRST_BOOKMARK_WAIT = 10.0
FIRST_BOOKMARK_TRIES = 6
BOOKMARK_PERIOD = 60.0
IDLE_AFTER_BOOKMARK = 3 * BOOKMARK_PERIOD
IDLE_MARGIN = 30.0
SUSPICIOUS_SILENCE = 2.5 * BOOKMARK_PERIOD
MOST_REFUSALS = 5
"""Half a minute: an API server that has just started does not know its roles at first."""


class ApiRequest(msgspec.Struct, frozen=True):
    """A request to send after so many seconds: a list, or a watch, which is a stream of events."""

    query: Query
    watch: bool
    accept: str
    delay: float = 0.0


class _Phase(Enum):
    WATCH_LIST = 1
    LIST = 2
    WATCH = 3


class _Stream:
    """One open watch."""

    def __init__(self, opened: float, encoding: Encoding) -> None:
        self.opened = opened
        self.encoding = encoding
        self.splitter = encoding.splitter()
        self.has_events = False
        self.has_bookmarks = False
        self.waits = 0


class ListWatch:
    """Lists and watches one resource. `watch_list=False` never requests a watch-list.

    Nor is one requested where lists and watches differ in what they accept: it is both.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        watch_list: bool = True,
        accepts: Accepts = ONLY_JSON,
    ) -> None:
        self._accepts = accepts
        self._resource = resource
        self._kind = resource.kind
        self._may_stream = watch_list
        streams = watch_list and accepts.list == accepts.watch
        self._first_phase = _Phase.WATCH_LIST if streams else _Phase.LIST
        self._phase = self._first_phase
        self._stream: _Stream | None = None
        # The backoff before the next request. Relists have their own: after an outage the first
        # relist must not wait as long as the last attempt to connect.
        self._backoff: Backoff | None = None
        self._reconnect_backoff = Backoff()
        self._relist_backoff = Backoff()
        self._timeout_seconds = 0
        self._refusals = 0
        """Of the watch, one after the other, for a reason that may pass."""
        self._version = ""
        self._is_version_usable = True  # until a server refuses it
        # The current list.
        self._reader: wire.ListReader | None = None
        self._encoding: Encoding = wire.JSON
        self._has_begun = False
        self._requested_version = ""
        self._continue_token = ""
        self._is_unpaged = False
        self._cache_has_pages = False

    @property
    def streaming(self) -> bool:
        """Whether there is an open watch to read from."""
        return self._stream is not None

    @property
    def synced(self) -> bool:
        """Whether the last list is complete, so that only changes follow."""
        return self._phase is _Phase.WATCH

    @property
    def idle_timeout(self) -> float:
        """Seconds without a byte after which to call `idle`.

        A watch that had a bookmark has one about every minute. Any other must at least end when
        its timeout has passed.
        """
        if self._phase is _Phase.WATCH_LIST:
            return FIRST_BOOKMARK_WAIT
        if self._stream is not None and self._stream.has_bookmarks:
            return IDLE_AFTER_BOOKMARK
        return self._timeout_seconds + IDLE_MARGIN

    # --- requests -----------------------------------------------------------------------------

    def next_request(self, now: float, chance: float) -> ApiRequest:
        """The next request; `chance` in [0, 1) spreads delays and timeouts over many clients."""
        delay = self._backoff.delay(now, chance) if self._backoff is not None else 0.0
        self._backoff = None
        self._timeout_seconds = int(300 + 300 * chance)
        version = self._version if self._is_version_usable else ""
        if self._phase is _Phase.LIST:
            return ApiRequest(self._list_query(version), False, self._accepts.list, delay)
        self._requested_version, seconds = version, self._timeout_seconds
        query = watch_query(self._resource, version, seconds, watch_list=not self.synced)
        accept = self._accepts.watch if self.synced else self._accepts.list
        return ApiRequest(query, True, accept, delay)

    def _list_query(self, version: str) -> Query:
        if self._continue_token:
            return list_query(self._resource, page_size=PAGE_SIZE, token=self._continue_token)
        if not self._is_unpaged:
            # "0" lets the server answer the first list from its cache, however old.
            self._requested_version = version or ("0" if self._is_version_usable else "")
        # A server answers a paged list at a version from etcd, an unpaged one from its cache.
        paged = not self._is_unpaged and (not version or self._cache_has_pages)
        page_size = PAGE_SIZE if paged else 0
        return list_query(self._resource, version=self._requested_version, page_size=page_size)

    # --- failures -----------------------------------------------------------------------------

    def refused(self, status: Status) -> list[Output]:
        """The server answered with another status than 200."""
        unknown = (HTTPStatus.NOT_ACCEPTABLE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if status.code in unknown and self._accepts != ONLY_JSON:
            self._accepts = ONLY_JSON
            return [Incident(IncidentReason.NOT_ACCEPTABLE, status)]
        if self._phase is _Phase.WATCH_LIST:
            return self._watch_list_refused(status)
        if self._phase is _Phase.LIST:
            return self._list_refused(status)
        if status.may_pass and self._refusals < MOST_REFUSALS:
            self._refusals += 1
            self._backoff = self._reconnect_backoff
            return [Incident(IncidentReason.REFUSED, status)]
        return self._watch_refused(status, IncidentReason.REFUSED)

    def _watch_list_refused(self, status: Status) -> list[Output]:
        self._stream = None
        if status.stale and self._requested_version:
            self._is_version_usable = False
            return []
        if status.code == HTTPStatus.TOO_MANY_REQUESTS:
            self._backoff = self._reconnect_backoff
            return [Incident(IncidentReason.TRY_LATER, status)]
        self._phase = _Phase.LIST
        return [Incident(IncidentReason.WATCH_LIST_REFUSED, status)]

    def _list_refused(self, status: Status) -> list[Output]:
        if status.stale and self._continue_token:
            # The snapshot that the pages come from is gone: one list without pages instead.
            self._continue_token, self._is_unpaged = "", True
            return []
        if status.stale and self._requested_version:
            self._is_version_usable, self._is_unpaged = False, False
            return []
        return self._relist(IncidentReason.REFUSED, status)

    def _watch_refused(self, status: Status, otherwise: IncidentReason) -> list[Output]:
        if status.stale:
            return self._relist(IncidentReason.EXPIRED, status)
        if status.retryable:
            self._stream, self._backoff = None, self._reconnect_backoff
            return [Incident(IncidentReason.TRY_LATER, status)]
        return self._relist(otherwise, status)

    def disconnected(self, now: float) -> None:
        """There was no response, or it was cut off; what was delivered stays valid."""
        stream, self._stream, self._backoff = self._stream, None, self._reconnect_backoff
        if self._reader is not None and self._may_stream:
            # A server gives a list a minute at most, and a watch-list as long as it takes.
            self._phase, self._continue_token, self._is_unpaged = _Phase.WATCH_LIST, "", False
        self._reader = None
        if stream is not None and self.synced:
            self._resume(stream, now)

    def _resume(self, stream: _Stream, now: float) -> None:
        """Open the watch again: at once, or after a delay, which is short if it had events."""
        self._stream = None
        if stream.has_events:
            self._reconnect_backoff = Backoff()
        is_short = now - stream.opened < SHORTEST_WATCH
        self._backoff = self._reconnect_backoff if is_short else None

    def _relist(
        self, reason: IncidentReason, status: Status | None = None, detail: str = ""
    ) -> list[Output]:
        """List all objects again, after a delay."""
        self._phase, self._backoff = self._first_phase, self._relist_backoff
        self._continue_token, self._is_unpaged = "", False
        self._stream = None
        return [Incident(reason, status, detail)]

    def _fall_back_to_list(self, reason: IncidentReason, detail: str = "") -> list[Output]:
        """List instead of this watch-list, without a delay."""
        self._phase, self._stream = _Phase.LIST, None
        return [Incident(reason, None, detail)]

    # --- lists --------------------------------------------------------------------------------

    def list_opened(self, encoding: Encoding = wire.JSON) -> None:
        """The server answered a list, or the request for a page of it, with 200."""
        self._reader, self._encoding = encoding.list_reader(self._kind), encoding
        self._has_begun = bool(self._continue_token)

    def receive_list(self, chunk: bytes) -> Iterator[Output]:
        """Bytes of the list, cut anywhere. Objects are decoded one at a time.

        The iterator must be read to its end: the state changes while it is read.
        """
        if self._reader is not None:
            yield from self._listed(self._reader.feed(chunk))

    def listed(self) -> Iterator[Output]:
        """The list, or the page, is complete. The iterator must be read to its end."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        try:
            page = reader.finish()
        except wire.InvalidData as error:
            yield from self._relist(IncidentReason.INVALID_DATA, detail=str(error))
            return
        yield from self._listed(page.items, always=True)
        self._continue_token = page.token
        if not self._continue_token:
            yield self._complete(page.version)
        elif self._requested_version == "0":
            self._cache_has_pages = True

    def _listed(
        self, items: Sequence[KubeObject | msgspec.Raw], *, always: bool = False
    ) -> Iterator[Output]:
        if not self._has_begun and (items or always):
            self._has_begun = True
            yield Reset(self._kind)
        for item in items:
            if isinstance(item, msgspec.Raw):
                yield from self._decoded(item, self._encoding)
            else:
                yield self._upsert(item)

    def _complete(self, version: str) -> Synced:
        self._version, self._is_version_usable = version, True
        self._phase, self._is_unpaged = _Phase.WATCH, False
        return Synced(self._kind)

    # --- watches ------------------------------------------------------------------------------

    def opened(self, now: float, encoding: Encoding = wire.JSON) -> list[Event]:
        """The server answered a watch with 200."""
        self._stream = _Stream(now, encoding)
        if self.synced:
            self._refusals = 0
        return [] if self.synced else [Reset(self._kind)]

    def receive(self, chunk: bytes) -> Iterator[Output]:
        """Bytes of the watch, cut anywhere.

        The iterator must be read to its end: the state changes while it is read.
        """
        stream = self._stream
        if stream is not None:
            yield from self._events_of(stream, lambda: stream.splitter.feed(chunk))

    def _events_of(self, stream: _Stream, split: Callable[[], list[bytes]]) -> Iterator[Output]:
        try:
            for data in split():
                stream.has_events = True
                found = stream.encoding.upsert(self._kind, data)
                if found is not None:
                    yield self._upsert(found)
                    continue
                yield from self._event(stream, stream.encoding.event(data))
                if self._stream is None:
                    return
        except wire.InvalidData as error:
            if self._phase is _Phase.WATCH_LIST:
                yield from self._fall_back_to_list(IncidentReason.INVALID_DATA, str(error))
            else:
                yield from self._relist(IncidentReason.INVALID_DATA, detail=str(error))

    def closed(self, now: float) -> list[Output]:
        """The server ended the watch properly; a last line without its end counts if valid."""
        stream = self._stream
        if stream is None:
            return []
        outputs = list(self._events_of(stream, stream.splitter.finish))
        return outputs if self._stream is None else outputs + self._ended(stream, now)

    def _ended(self, stream: _Stream, now: float) -> list[Output]:
        age = now - stream.opened
        at_once = age < SHORTEST_WATCH and not stream.has_events
        if self._phase is _Phase.WATCH_LIST:
            again = self._fall_back_to_list if at_once else self._relist
            return again(IncidentReason.INCOMPLETE)
        if at_once:
            return self._relist(IncidentReason.CLOSED_AT_ONCE)
        if not stream.has_events and age >= SUSPICIOUS_SILENCE:
            # A watch from a version that the server has not reached yet has no events: after a
            # restore of etcd that can last for days.
            return self._relist(IncidentReason.NO_EVENTS)
        self._resume(stream, now)
        return []

    def idle(self, now: float) -> list[Output]:
        """Nothing came for `idle_timeout` seconds."""
        stream = self._stream
        if stream is None:
            return []
        if self._phase is not _Phase.WATCH_LIST:
            self.disconnected(now)
            return [Incident(IncidentReason.IDLE)]
        stream.waits += 1
        if stream.waits < FIRST_BOOKMARK_TRIES:
            return [Incident(IncidentReason.NO_BOOKMARK)]
        return self._fall_back_to_list(IncidentReason.NEVER_COMPLETE)

    # --- events of a watch --------------------------------------------------------------------

    def _event(self, stream: _Stream, event: wire.WatchEvent) -> list[Output]:
        match event.type:
            case "ADDED" | "MODIFIED":
                return self._decoded(event.object, stream.encoding)
            case "DELETED":
                metadata = stream.encoding.metadata(event)  # enough for a deletion
                self._advance(metadata.resource_version)
                return [Delete(self._kind, metadata.key)]
            case "BOOKMARK":
                stream.has_bookmarks = True
                return self._bookmark(stream.encoding.metadata(event))
            case "ERROR":
                status = stream.encoding.status(event)
                if self.synced:
                    return self._watch_refused(status, IncidentReason.ERROR_EVENT)
                return self._watch_list_refused(status)
            case _:
                return [Incident(IncidentReason.UNKNOWN_EVENT, detail=event.type)]

    def _decoded(self, raw: msgspec.Raw, encoding: Encoding) -> list[Output]:
        try:
            return [self._upsert(encoding.decode(self._kind, raw))]
        except UndecodableObject as error:
            self._advance(error.resource_version)
            return [error] if error.key is None else [error, Keep(self._kind, error.key)]

    def _upsert(self, found: KubeObject) -> Upsert:
        self._advance(found.metadata.resource_version)
        return Upsert(self._kind, found)

    def _advance(self, version: str) -> None:
        """All changes up to this version were delivered, unless a list is incomplete."""
        if version and self._phase is _Phase.WATCH:
            self._version = version

    def _bookmark(self, metadata: ObjectMeta) -> list[Output]:
        self._advance(metadata.resource_version)
        ends = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
        if self.synced or not ends:
            return []
        if not metadata.resource_version:
            raise wire.InvalidData("the last initial event has no resourceVersion")
        return [self._complete(metadata.resource_version)]
