"""What goes wrong on purpose. Each fault is used up by the requests or streams that it hits."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

import msgspec

from fakes.apierrors import ApiError
from fakes.apiprotobuf import frame_of
from fakes.apistreams import Ending, Watcher

HALF_AN_EVENT = b'{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","meta'

NO_PROGRESS = ApiError(
    500,
    "a watch stream was requested by the client but the required storage feature"
    " RequestWatchProgress is disabled",
)
GATE_OFF = ApiError(
    422,
    "ListOptions.meta.k8s.io is invalid: sendInitialEvents: Forbidden: sendInitialEvents is"
    " forbidden for watch unless the WatchList feature gate is enabled",
)


def half_an_event(watcher: Watcher) -> bytes:
    """The beginning of an event, in the encoding of the watch."""
    if not watcher.protobuf:
        return HALF_AN_EVENT
    whole = HALF_AN_EVENT + b'data":{"name":"half"}}}'
    return frame_of(whole)[:-3]


class Refusal(msgspec.Struct):
    """An answer that stands ready for the next requests that match."""

    pattern: str
    error: ApiError
    times: int | None
    retry_after: int | None = None
    as_event: bool = False
    """Answer 200 and then the ERROR event; for watches only."""
    watchlist_only: bool = False


class Faults:
    """The faults of one server. `watchers` gives the watches that are open."""

    def __init__(self, watchers: Callable[[], Iterable[Watcher]]) -> None:
        self._watchers = watchers
        self._refusals: list[Refusal] = []
        self.rate: float | None = None
        """Bytes per second of every answer; None is as fast as it goes."""
        self.paginate_cached = False
        """Obey `limit` for lists at resourceVersion 0, which the watch cache does not do."""

    def status(
        self,
        path_contains: str,
        code: int,
        times: int | None = 1,
        retry_after: int | None = None,
        message: str = "refused on purpose",
    ) -> None:
        """Refuse requests whose path and query contain the text (`*` is a wildcard) with a code.

        None refuses them for ever; `clear` ends that.
        """
        error = ApiError(code, message)
        self._refusals.append(Refusal(f"*{path_contains}*", error, times, retry_after))

    def error_event(
        self, path_contains: str, code: int, times: int | None = 1, message: str = "on purpose"
    ) -> None:
        """Answer watches that match with 200 and an ERROR event."""
        error = ApiError(code, message)
        self._refusals.append(Refusal(f"*{path_contains}*", error, times, as_event=True))

    def refuse_watchlist(self, times: int | None = None, *, old_storage: bool = False) -> None:
        """Refuse watch-lists: with 422 as a server without them, or as old storage does."""
        error = NO_PROGRESS if old_storage else GATE_OFF
        refusal = Refusal("*", error, times, as_event=old_storage, watchlist_only=True)
        self._refusals.append(refusal)

    def clear(self) -> None:
        """Forget all refusals and go at full speed."""
        self._refusals.clear()
        self.rate = None

    def refusal_for(self, path_and_query: str, *, watch: bool, watchlist: bool) -> Refusal | None:
        """The refusal that a request meets, used up by one."""
        for refusal in self._refusals:
            if (
                fnmatchcase(path_and_query, refusal.pattern)
                and (watch or not refusal.as_event)
                and (watchlist or not refusal.watchlist_only)
            ):
                if refusal.times is not None:
                    refusal.times -= 1
                    if refusal.times == 0:
                        self._refusals.remove(refusal)
                return refusal
        return None

    def cut_streams(self, *, mid_line: bool = False) -> None:
        """Reset the connections of all open watches, optionally within a line."""
        for watcher in self._watchers():
            if mid_line:
                watcher.put(half_an_event(watcher))
            watcher.queue.put_nowait(Ending.RESET)

    def end_streams(self) -> None:
        """End all open watches cleanly."""
        for watcher in self._watchers():
            watcher.queue.put_nowait(Ending.CLEAN)

    def truncate(self) -> None:
        """Send half an event to all open watches, then end them cleanly."""
        for watcher in self._watchers():
            watcher.put(half_an_event(watcher))
            watcher.queue.put_nowait(Ending.CLEAN)

    def garbage(self, data: bytes = b"<html>this is not JSON</html>\n") -> None:
        """Write something else than events into all open watches, which stay open."""
        for watcher in self._watchers():
            watcher.put(data)

    def fail_streams(self, code: int, message: str = "on purpose") -> None:
        """Send an ERROR event to all open watches and end them."""
        for watcher in self._watchers():
            watcher.fail(ApiError(code, message))

    def slow(self, bytes_per_second: float | None) -> None:
        """Slow every answer down from now on; None goes at full speed again."""
        self.rate = bytes_per_second
