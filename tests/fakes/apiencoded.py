"""What was encoded for one client is sent to the next as it is, until something changes."""

import zlib

import msgspec

from fakes.apilists import encode_list
from fakes.apiprotobuf import frame_of
from fakes.apiresources import Resource
from fakes.apistore import Page, Selection, Store
from fakes.apistreams import Initial, compressor, event_line


class ListBody:
    """The JSON of a list, compressed at the first request for that."""

    def __init__(self, plain: bytes) -> None:
        self.plain = plain
        self._gzipped: bytes | None = None

    @property
    def gzipped(self) -> bytes:
        """The JSON, compressed."""
        if self._gzipped is None:
            gzip = compressor()
            self._gzipped = gzip.compress(self.plain) + gzip.flush(zlib.Z_FINISH)
        return self._gzipped


class _What(msgspec.Struct, frozen=True):
    resource: Resource
    selection: Selection
    protobuf: bool = False


class Encoded:
    """The newest whole list and the newest initial events of each selection of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lists: dict[_What, tuple[int, ListBody]] = {}
        self._initial: dict[_What, tuple[int, Initial]] = {}

    def list_of(self, resource: Resource, selection: Selection, page: Page) -> ListBody:
        """The JSON of a page; only the whole list as it is now is kept."""
        if page.version != self._store.version or page.next_key or page.is_continued:
            return ListBody(encode_list(resource, page))
        what = _What(resource, selection)
        version, body = self._lists.get(what, (0, None))
        if body is None or version != page.version:
            body = ListBody(encode_list(resource, page))
            self._lists[what] = page.version, body
        return body

    def initial_of(
        self, resource: Resource, selection: Selection, *, protobuf: bool = False
    ) -> Initial:
        """The initial events, one for each object."""
        what = _What(resource, selection, protobuf)
        changed = self._store.last_change(resource)
        version, initial = self._initial.get(what, (0, None))
        if initial is None or version != changed:
            page = self._store.list(resource, selection)
            lines = [event_line(resource, "ADDED", stored.encoded) for stored in page.items]
            initial = Initial(b"".join(map(frame_of, lines) if protobuf else lines))
            self._initial[what] = changed, initial
        return initial
