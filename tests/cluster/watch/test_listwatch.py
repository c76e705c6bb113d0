"""The list and watch protocol: its requests, its events, and how it recovers from failures."""

from collections.abc import Callable, Iterable

import pytest

from cluster.apijson import (
    BROKEN,
    BUSY,
    EXPIRED,
    FORBIDDEN,
    GATE_OFF,
    TOO_LARGE,
    UNAUTHORIZED,
    UNAVAILABLE,
    bookmark,
    deeper,
    error_event,
    event,
    listed,
    page,
    service,
    unreadable,
)
from kubeproxy.cluster.client.contenttypes import DEFAULT, JSON_TYPE
from kubeproxy.cluster.client.resources import SERVICES
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Delete, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.objects.decode import UndecodableObject
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.watch.incidents import Incident, IncidentReason, Output
from kubeproxy.cluster.watch.listwatch import MOST_REFUSALS, ApiRequest, ListWatch


def shown(outputs: Iterable[Output]) -> list[str]:
    """Outputs as short texts: `+a@1` upserted at version 1, `-a` deleted, `=a` kept, and so on."""
    return [_shown(output) for output in outputs]


def _shown(output: Output) -> str:
    match output:
        case Reset() | Synced():
            return type(output).__name__.lower()
        case Upsert(object=found):
            return f"+{found.metadata.name}@{found.metadata.resource_version}"
        case Delete(key=key):
            return f"-{key.name}"
        case Keep(key=key):
            return f"={key.name}"
        case UndecodableObject():
            return f"?{output.key.name if output.key else ''}@{output.resource_version}"
        case Incident(reason=reason):
            return reason.name


def ask(protocol: ListWatch, now: float = 0.0, chance: float = 0.0) -> ApiRequest:
    return protocol.next_request(now, chance)


def asked(protocol: ListWatch, now: float = 0.0) -> str:
    """The next request as text, without what is the same in all: selectors and timeout."""
    request = ask(protocol, now)
    left_out = ("labelSelector", "fieldSelector", "allowWatchBookmarks", "timeoutSeconds")
    words = [f"{key}={value}" for key, value in request.query if key not in left_out]
    wait = "wait, " if request.delay else ""
    return f"{wait}{'watch' if request.watch else 'list'}: {'&'.join(words)}"


WATCH_LIST = "watch: watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def watch_list(version: str = "") -> str:
    return WATCH_LIST + (f"&resourceVersion={version}" if version else "")


def watch(version: str) -> str:
    return f"watch: watch=true&resourceVersion={version}"


def open_stream(protocol: ListWatch, now: float = 0.0) -> list[str]:
    ask(protocol, now)
    return shown(protocol.opened(now))


def watching(version: str = "5", *objects: dict[str, object]) -> ListWatch:
    """A protocol that has listed all objects and whose watch is open."""
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    for obj in objects:
        list(protocol.receive(event("ADDED", obj)))
    assert shown(protocol.receive(bookmark(version, ends=True))) == ["synced"]
    return protocol


def listing() -> ListWatch:
    """A protocol whose server serves no watch-list, so that it lists."""
    protocol = ListWatch(SERVICES)
    ask(protocol)
    protocol.refused(GATE_OFF)
    return protocol


# --- what is asked ----------------------------------------------------------------------------


def test_the_first_request_is_a_watch_list_with_the_selectors_and_a_chance_timeout() -> None:
    expected = ApiRequest(
        (
            ("labelSelector", "!service.kubernetes.io/service-proxy-name"),
            ("fieldSelector", "spec.clusterIP!=None"),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("timeoutSeconds", "450"),
        ),
        watch=True,
        accept="application/json",
    )
    assert expected == ask(ListWatch(SERVICES), chance=0.5)


@pytest.mark.parametrize(
    ("chance", "seconds"),
    [
        pytest.param(0.0, "300", id="shortest"),
        pytest.param(0.999999, "599", id="longest"),
    ],
)
def test_chance_chooses_how_long_a_watch_lives(chance: float, seconds: str) -> None:
    protocol = watching()
    list(protocol.closed(400.0))
    assert ("timeoutSeconds", seconds) in ask(protocol, chance=chance).query


def test_without_the_gate_the_first_request_is_a_list() -> None:
    assert asked(ListWatch(SERVICES, watch_list=False)) == "list: limit=500&resourceVersion=0"


def test_without_the_gate_a_relist_is_a_list_at_the_last_version() -> None:
    protocol = ListWatch(SERVICES, watch_list=False)
    ask(protocol)
    listed(protocol, page("9"))
    ask(protocol)
    protocol.opened(0.0)
    list(protocol.receive(error_event(BROKEN)))
    assert asked(protocol) == "wait, list: resourceVersion=9"


# --- a watch-list -----------------------------------------------------------------------------


def test_a_watch_list_has_all_objects_and_goes_on_as_the_watch() -> None:
    protocol = ListWatch(SERVICES)
    assert not protocol.synced
    assert open_stream(protocol) == ["reset"]
    stream = (
        event("ADDED", service("a", 3))
        + event("ADDED", service("b", 4))
        + bookmark("7", ends=True)
        + event("MODIFIED", service("a", 8))
        + event("DELETED", service("b", 9))
    )
    assert shown(protocol.receive(stream)) == ["+a@3", "+b@4", "synced", "+a@8", "-b"]
    assert protocol.streaming
    assert protocol.synced
    assert protocol.closed(400.0) == []
    assert not protocol.streaming
    assert watch("9") == asked(protocol)


def test_changes_before_the_end_of_the_initial_events_are_delivered_in_order() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    stream = (
        event("ADDED", service("a", 3))
        + event("MODIFIED", service("a", 8))
        + event("DELETED", service("a", 9))
        + bookmark("9", ends=True)
    )
    assert shown(protocol.receive(stream)) == ["+a@3", "+a@8", "-a", "synced"]


def test_a_bookmark_without_the_mark_does_not_end_the_initial_events() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    assert shown(protocol.receive(bookmark("9"))) == []
    protocol.disconnected(5.0)
    assert f"wait, {watch_list()}" == asked(protocol)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(GATE_OFF, "list: limit=500&resourceVersion=0", id="the-gate-is-off"),
        pytest.param(BROKEN, "list: limit=500&resourceVersion=0", id="the-storage-is-too-old"),
        pytest.param(FORBIDDEN, "list: limit=500&resourceVersion=0", id="no-watch-permission"),
        pytest.param(UNAVAILABLE, "list: limit=500&resourceVersion=0", id="unavailable"),
        pytest.param(EXPIRED, "list: limit=500&resourceVersion=0", id="expired-without-version"),
        pytest.param(BUSY, f"wait, {watch_list()}", id="too-many-requests"),
    ],
)
def test_a_refused_watch_list(status: Status, expected: str) -> None:
    by_status, by_event = ListWatch(SERVICES), ListWatch(SERVICES)
    ask(by_status)
    assert len(by_status.refused(status)) == 1
    assert expected == asked(by_status)
    open_stream(by_event)
    assert len(list(by_event.receive(error_event(status)))) == 1
    assert not by_event.streaming
    assert expected == asked(by_event)


@pytest.mark.parametrize("status", [EXPIRED, TOO_LARGE], ids=["expired", "too-large"])
def test_a_watch_list_at_a_useless_version_is_repeated_without_then_becomes_a_list(
    status: Status,
) -> None:
    protocol = watching("5")
    assert shown(protocol.receive(error_event(EXPIRED))) == ["EXPIRED"]
    assert f"wait, {watch_list('5')}" == asked(protocol)
    assert protocol.refused(status) == []
    assert watch_list() == asked(protocol)
    assert len(protocol.refused(status)) == 1
    assert asked(protocol) == "list: limit=500"


def test_an_error_event_about_the_version_has_the_watch_list_repeated_without() -> None:
    protocol = watching("5")
    list(protocol.receive(error_event(EXPIRED)))
    assert open_stream(protocol) == ["reset"]
    assert shown(protocol.receive(error_event(TOO_LARGE))) == []
    assert watch_list() == asked(protocol)
    assert shown(protocol.opened(0.0)) == ["reset"]
    assert shown(protocol.receive(bookmark("2", ends=True))) == ["synced"]
    protocol.disconnected(9.0)
    assert watch("2") == asked(protocol)


def test_the_fallback_to_a_list_holds_for_one_round_only() -> None:
    protocol = listing()
    ask(protocol)
    listed(protocol, page("9"))
    open_stream(protocol)
    list(protocol.receive(error_event(BROKEN)))
    assert f"wait, {watch_list('9')}" == asked(protocol)


def test_a_watch_list_that_is_closed_at_once_becomes_a_list() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    assert shown(protocol.closed(0.5)) == ["INCOMPLETE"]
    assert asked(protocol) == "list: limit=500&resourceVersion=0"


def test_a_watch_list_that_is_closed_half_way_begins_from_scratch() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    list(protocol.receive(event("ADDED", service("a", 3))))
    assert shown(protocol.closed(0.5)) == ["INCOMPLETE"]
    assert f"wait, {watch_list()}" == asked(protocol)
    assert shown(protocol.opened(3.0)) == ["reset"]


def test_a_watch_list_that_breaks_half_way_begins_from_scratch() -> None:
    protocol = watching("5")
    list(protocol.receive(error_event(BROKEN)))
    open_stream(protocol)
    list(protocol.receive(event("ADDED", service("a", 30))))
    protocol.disconnected(90.0)
    assert f"wait, {watch_list('5')}" == asked(protocol)


def test_a_watch_list_without_its_end_is_waited_for_a_minute() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    assert protocol.idle_timeout == 10.0
    for wait in range(1, 6):
        assert [Incident(IncidentReason.NO_BOOKMARK)] == protocol.idle(wait * 10.0)
        assert protocol.streaming
    assert [Incident(IncidentReason.NEVER_COMPLETE)] == protocol.idle(60.0)
    assert not protocol.streaming
    assert asked(protocol) == "list: limit=500&resourceVersion=0"


def test_initial_events_that_end_without_a_version_are_not_the_protocol() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    assert shown(protocol.receive(bookmark("", ends=True))) == ["INVALID_DATA"]
    assert asked(protocol) == "list: limit=500&resourceVersion=0"


# --- a list -----------------------------------------------------------------------------------


def test_a_list_has_all_objects_and_is_followed_by_a_watch_from_its_version() -> None:
    protocol = listing()
    assert asked(protocol) == "list: limit=500&resourceVersion=0"
    body = page("9", service("a", 3), service("b", 4))
    assert shown(listed(protocol, body)) == ["reset", "+a@3", "+b@4", "synced"]
    assert watch("9") == asked(protocol)
    assert protocol.opened(0.0) == []
    assert shown(protocol.receive(event("ADDED", service("c", 11)))) == ["+c@11"]


def test_a_list_may_have_null_for_no_items() -> None:
    protocol = listing()
    ask(protocol)
    body = b'{"metadata":{"resourceVersion":"9"},"items":null}'
    assert shown(listed(protocol, body)) == ["reset", "synced"]


def test_the_pages_of_a_list_have_one_reset_and_one_synced() -> None:
    protocol = listing()
    ask(protocol)
    first = page("9", service("a", 3), token="t1")
    assert shown(listed(protocol, first)) == ["reset", "+a@3"]
    assert asked(protocol) == "list: limit=500&continue=t1"
    assert shown(listed(protocol, page("9", service("b", 4), token="t2"))) == ["+b@4"]
    assert asked(protocol) == "list: limit=500&continue=t2"
    assert shown(listed(protocol, page("9", service("c", 5)))) == ["+c@5", "synced"]
    assert watch("9") == asked(protocol)


def test_a_page_that_does_not_arrive_is_asked_for_again() -> None:
    protocol = listing()
    ask(protocol)
    listed(protocol, page("9", service("a", 3), token="t1"))
    ask(protocol)
    protocol.disconnected(1.0)
    assert asked(protocol) == "wait, list: limit=500&continue=t1"
    assert shown(listed(protocol, page("9"))) == ["synced"]


def test_an_expired_continue_token_leads_to_one_list_without_pages() -> None:
    protocol = listing()
    ask(protocol)
    listed(protocol, page("9", service("a", 3), token="t1"))
    ask(protocol)
    assert protocol.refused(EXPIRED) == []
    assert asked(protocol) == "list: resourceVersion=0"
    assert shown(listed(protocol, page("9", service("b", 4)))) == ["reset", "+b@4", "synced"]


def test_a_list_without_pages_that_has_expired_too_is_asked_for_without_a_version() -> None:
    protocol = listing()
    ask(protocol)
    listed(protocol, page("9", token="t1"))
    ask(protocol)
    protocol.refused(EXPIRED)
    ask(protocol)
    assert protocol.refused(EXPIRED) == []
    assert asked(protocol) == "list: limit=500"


def test_a_cache_that_pages_is_asked_for_pages_from_then_on() -> None:
    protocol = ListWatch(SERVICES, watch_list=False)
    ask(protocol)
    listed(protocol, page("9", token="t1"))
    ask(protocol)
    listed(protocol, page("9"))
    open_stream(protocol)
    list(protocol.receive(error_event(BROKEN)))
    assert asked(protocol) == "wait, list: limit=500&resourceVersion=9"


def test_pages_of_a_list_without_a_version_do_not_count_as_those_of_a_cache() -> None:
    protocol = ListWatch(SERVICES, watch_list=False)
    ask(protocol)
    protocol.refused(EXPIRED)
    ask(protocol)
    listed(protocol, page("9", token="t1"))
    ask(protocol)
    listed(protocol, page("9"))
    open_stream(protocol)
    list(protocol.receive(error_event(BROKEN)))
    assert asked(protocol) == "wait, list: resourceVersion=9"


@pytest.mark.parametrize("status", [EXPIRED, TOO_LARGE], ids=["expired", "too-large"])
def test_a_list_at_a_useless_version_is_repeated_at_once_without(status: Status) -> None:
    protocol = ListWatch(SERVICES, watch_list=False)
    ask(protocol)
    listed(protocol, page("9"))
    open_stream(protocol)
    list(protocol.receive(error_event(BROKEN)))
    ask(protocol)
    assert protocol.refused(status) == []
    assert asked(protocol) == "list: limit=500"
    assert protocol.refused(status) == [Incident(IncidentReason.REFUSED, status)]
    assert asked(protocol) == "wait, list: limit=500"


def test_a_refused_list_ends_the_round() -> None:
    protocol = listing()
    ask(protocol)
    assert protocol.refused(FORBIDDEN) == [Incident(IncidentReason.REFUSED, FORBIDDEN)]
    assert f"wait, {watch_list()}" == asked(protocol)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="not-json"),
        pytest.param(b'{"metadata":{"resourceVersion":"1"},"items":[{]}', id="broken-json"),
        pytest.param(b'{"metadata":{"resourceVersion":"1"},"items":7}', id="items-are-no-list"),
        pytest.param(b'{"metadata":{"resourceVersion":"1\xff"}}', id="not-utf-8"),
        pytest.param(b'{"metadata":{},"items":[]}', id="no-version-to-watch-from"),
    ],
)
def test_a_list_that_is_none_ends_the_round_and_says_nothing_else(body: bytes) -> None:
    protocol = listing()
    ask(protocol)
    assert shown(listed(protocol, body)) == ["INVALID_DATA"]
    assert f"wait, {watch_list()}" == asked(protocol)


# --- a watch ----------------------------------------------------------------------------------


def test_a_cut_watch_is_resumed_at_once_from_the_newest_version_seen() -> None:
    protocol = watching("5")
    list(protocol.receive(event("ADDED", service("a", 8)) + bookmark("12")))
    protocol.disconnected(30.0)
    assert watch("12") == asked(protocol)
    assert protocol.opened(31.0) == []
    assert shown(protocol.receive(event("ADDED", service("b", 13)))) == ["+b@13"]


def test_a_watch_cut_within_a_line_loses_only_that_line() -> None:
    protocol = watching("5")
    line = event("ADDED", service("b", 9))
    assert shown(protocol.receive(event("ADDED", service("a", 8)) + line[:-5])) == ["+a@8"]
    protocol.disconnected(30.0)
    assert watch("8") == asked(protocol)
    protocol.opened(31.0)
    assert shown(protocol.receive(line)) == ["+b@9"]


def test_a_watch_that_cannot_be_opened_is_tried_again_from_the_same_version() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    waits = []
    for _ in range(8):
        waits.append(protocol.next_request(30.0, 0.5).delay)
        protocol.disconnected(30.0)
    assert pytest.approx(waits) == [0.0, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0]
    assert f"wait, {watch('5')}" == asked(protocol)


def test_the_waits_are_short_again_after_two_quiet_minutes() -> None:
    protocol = ListWatch(SERVICES)
    for _ in range(5):
        protocol.next_request(0.0, 0.0)
        protocol.disconnected(0.0)
    assert pytest.approx(protocol.next_request(0.0, 0.0).delay) == 12.8
    protocol.disconnected(0.0)
    assert pytest.approx(protocol.next_request(133.0, 0.0).delay) == 0.8


def test_a_relist_does_not_wait_longer_because_the_server_was_unreachable() -> None:
    protocol = watching("5")
    for _ in range(6):
        protocol.disconnected(30.0)
        protocol.next_request(30.0, 0.0)
    protocol.opened(30.0)
    list(protocol.receive(error_event(EXPIRED)))
    assert protocol.next_request(30.0, 0.0).delay == pytest.approx(0.8)


def test_a_watch_that_ends_in_order_is_opened_again_at_once() -> None:
    protocol = watching("5")
    assert protocol.closed(300.0) == []
    assert watch("5") == asked(protocol)


def test_a_watch_that_is_cut_right_away_is_opened_again_after_a_wait() -> None:
    protocol = watching("5")
    protocol.disconnected(0.2)
    assert f"wait, {watch('5')}" == asked(protocol)


def test_a_watch_that_ends_right_after_an_event_is_opened_again_after_a_wait() -> None:
    protocol = watching("5")
    assert protocol.closed(0.2) == []
    assert f"wait, {watch('5')}" == asked(protocol)


@pytest.mark.parametrize("end", [ListWatch.disconnected, ListWatch.closed], ids=["cut", "ended"])
def test_streams_that_bring_news_are_followed_however_often_they_are_cut_short(
    end: Callable[[ListWatch, float], object],
) -> None:
    protocol = watching("5")
    waits = []
    for number in range(20):
        list(protocol.receive(event("ADDED", service("a", 10 + number))))
        end(protocol, number + 0.9)
        waits.append(protocol.next_request(number + 0.9, 0.5).delay)
        protocol.opened(number + 1.0)
    assert pytest.approx(waits) == [1.2] * 20


def test_a_list_that_is_cut_off_is_tried_after_longer_and_longer_delays() -> None:
    protocol = ListWatch(SERVICES)
    waits = []
    for _ in range(4):
        waits.append(protocol.next_request(0.0, 0.5).delay)
        protocol.opened(0.0)
        list(protocol.receive(event("ADDED", service("a", 10))))
        protocol.disconnected(0.9)
    assert pytest.approx(waits) == [0.0, 1.2, 2.4, 4.8]


def test_a_watch_that_ends_at_once_without_an_event_has_relisted() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    open_stream(protocol, 30.0)
    assert shown(protocol.closed(30.9)) == ["CLOSED_AT_ONCE"]
    assert f"wait, {watch_list('5')}" == asked(protocol)


def test_a_watch_without_any_bookmark_to_its_end_has_relisted() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    open_stream(protocol, 30.0)
    assert shown(protocol.closed(330.0)) == ["NO_EVENTS"]
    assert f"wait, {watch_list('5')}" == asked(protocol)


def test_a_short_watch_without_a_bookmark_is_just_opened_again() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    open_stream(protocol, 30.0)
    assert protocol.closed(90.0) == []
    assert watch("5") == asked(protocol)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(EXPIRED, "EXPIRED", watch_list("5"), id="expired"),
        pytest.param(TOO_LARGE, "EXPIRED", watch_list("5"), id="too-large"),
        pytest.param(BUSY, "TRY_LATER", watch("5"), id="too-many-requests"),
        pytest.param(UNAVAILABLE, "TRY_LATER", watch("5"), id="unavailable"),
        pytest.param(UNAUTHORIZED, "REFUSED", watch("5"), id="unauthorized"),
        pytest.param(FORBIDDEN, "REFUSED", watch("5"), id="forbidden"),
        pytest.param(BROKEN, "REFUSED", watch("5"), id="internal-error"),
        pytest.param(GATE_OFF, "REFUSED", watch_list("5"), id="invalid"),
    ],
)
def test_a_refused_watch(status: Status, reason: str, expected: str) -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    ask(protocol)
    assert shown(protocol.refused(status)) == [reason]
    assert f"wait, {expected}" == asked(protocol)


def refused_watches(protocol: ListWatch) -> int:
    """How many times the watch is tried while it is forbidden, before all objects are listed."""
    count = 0
    while (request := asked(protocol)) in (watch("5"), f"wait, {watch('5')}"):
        assert shown(protocol.refused(FORBIDDEN)) == ["REFUSED"]
        count += 1
    assert f"wait, {watch_list('5')}" == request
    return count


def test_a_watch_that_stays_forbidden_gives_way_to_a_list() -> None:
    """A role may allow lists and no watches: what it allows is better than nothing."""
    protocol = watching("5")
    protocol.disconnected(30.0)
    assert refused_watches(protocol) == MOST_REFUSALS + 1
    protocol.refused(FORBIDDEN)
    assert asked(protocol) == "list: resourceVersion=5"
    assert "synced" in shown(listed(protocol, page("5")))
    assert refused_watches(protocol) == 1


def test_a_watch_that_was_served_may_be_refused_as_often_again() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    for _ in range(MOST_REFUSALS):
        ask(protocol)
        protocol.refused(FORBIDDEN)
    open_stream(protocol, 60.0)
    protocol.disconnected(90.0)
    assert refused_watches(protocol) == MOST_REFUSALS + 1


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(EXPIRED, "EXPIRED", watch_list("5"), id="expired"),
        pytest.param(BUSY, "TRY_LATER", watch("5"), id="too-many-requests"),
        pytest.param(BROKEN, "ERROR_EVENT", watch_list("5"), id="internal-error"),
    ],
)
def test_an_error_event_in_a_watch_ends_the_stream(
    status: Status, reason: str, expected: str
) -> None:
    protocol = watching("5")
    later = event("ADDED", service("never", 99))
    assert [reason] == shown(protocol.receive(error_event(status) + later))
    assert not protocol.streaming
    assert f"wait, {expected}" == asked(protocol)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"<html>\n", id="not-json"),
        pytest.param(b'{"type":"ADDED"}\n', id="no-object"),
        pytest.param(b'{"type":"ADDED","object":{\n', id="cut-within-a-line-but-ended"),
        pytest.param(b'{"type":"\xff","object":{}}\n', id="not-utf-8"),
        pytest.param(b'{"type":"DELETED","object":{}}\n', id="deleted-without-metadata"),
        pytest.param(b'{"type":"BOOKMARK","object":{"metadata":7}}\n', id="bookmark-of-nothing"),
    ],
)
def test_garbage_in_a_watch_ends_the_stream_and_loses_nothing(data: bytes) -> None:
    protocol = watching("5")
    stream = event("ADDED", service("a", 8)) + data + event("ADDED", service("b", 9))
    assert shown(protocol.receive(stream)) == ["+a@8", "INVALID_DATA"]
    assert not protocol.streaming
    assert f"wait, {watch_list('8')}" == asked(protocol)


def test_garbage_in_a_watch_list_leads_to_a_list() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    assert shown(protocol.receive(b"<html>\n")) == ["INVALID_DATA"]
    assert asked(protocol) == "list: limit=500&resourceVersion=0"


def test_a_line_without_end_is_not_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = watching("5")
    monkeypatch.setattr("kubeproxy.cluster.watch.wire.LONGEST_LINE", 100)
    assert shown(protocol.receive(b"x" * 60)) == []
    assert shown(protocol.receive(b"x" * 60)) == ["INVALID_DATA"]
    assert not protocol.streaming


def test_a_last_line_without_its_end_counts_if_it_reads() -> None:
    protocol = watching("5")
    assert shown(protocol.receive(event("ADDED", service("a", 8)).rstrip())) == []
    assert shown(protocol.closed(400.0)) == ["+a@8"]
    assert watch("8") == asked(protocol)


def test_a_truncated_last_line_has_relisted() -> None:
    protocol = watching("5")
    list(protocol.receive(event("ADDED", service("a", 8))[:-9]))
    assert shown(protocol.closed(400.0)) == ["INVALID_DATA"]
    assert f"wait, {watch_list('5')}" == asked(protocol)


def test_an_event_of_unknown_type_is_skipped() -> None:
    protocol = watching("5")
    stream = event("RENAMED", service("a", 8)) + event("ADDED", service("b", 9))
    assert shown(protocol.receive(stream)) == ["UNKNOWN_EVENT", "+b@9"]


def test_a_known_object_may_be_added_again() -> None:
    protocol = watching("5", service("a", 3))
    assert shown(protocol.receive(event("ADDED", service("a", 8)))) == ["+a@8"]


def test_deleting_an_unknown_object_is_an_event_too() -> None:
    assert shown(watching("5").receive(event("DELETED", service("a", 8)))) == ["-a"]


def test_a_watch_is_opened_again() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    protocol.next_request(30.0, 0.5)
    protocol.opened(30.0)
    assert protocol.idle_timeout == 450.0 + 30.0
    list(protocol.receive(bookmark("7")))
    assert protocol.idle_timeout == 180.0
    assert [Incident(IncidentReason.IDLE)] == protocol.idle(300.0)
    assert not protocol.streaming
    assert watch("7") == asked(protocol)


def test_a_list_that_breaks_off_is_not_taken_for_all_objects() -> None:
    body = page("9", service("a", 3), service("b", 4), service("c", 5))
    protocol = listing()
    ask(protocol)
    protocol.list_opened()
    assert shown(protocol.receive_list(body[:-30])) == ["reset", "+a@3", "+b@4"]
    protocol.disconnected(1.0)
    assert asked(protocol) == f"wait, {watch_list()}"
    assert shown(protocol.opened(2.0)) == ["reset"]


def test_a_list_that_breaks_off_becomes_a_watch_list_if_it_may() -> None:
    """A server gives a list a minute at most, which may be too little for a slow connection."""
    protocol = ListWatch(SERVICES, accepts=DEFAULT)
    assert ask(protocol).accept == JSON_TYPE
    protocol.list_opened()
    protocol.disconnected(60.0)
    again = ask(protocol)
    assert (dict(again.query)["sendInitialEvents"], again.accept) == ("true", JSON_TYPE)
    protocol.opened(61.0)
    assert shown(protocol.receive(bookmark("5", ends=True))) == ["synced"]
    assert protocol.streaming
    assert protocol.closed(400.0) == []
    assert ask(protocol).accept == DEFAULT.watch


def test_without_the_gate_a_list_that_breaks_off_is_asked_for_again() -> None:
    protocol = ListWatch(SERVICES, watch_list=False)
    ask(protocol)
    protocol.list_opened()
    protocol.disconnected(60.0)
    assert asked(protocol) == "wait, list: limit=500&resourceVersion=0"


def test_a_list_that_ends_half_way_is_asked_for_again() -> None:
    protocol = listing()
    ask(protocol)
    body = page("9", service("a", 3), service("b", 4))
    assert shown(listed(protocol, body[:-30])) == ["reset", "+a@3", "INVALID_DATA"]
    assert watch_list() in asked(protocol)


def test_what_arrives_of_a_list_that_was_cut_off_is_ignored() -> None:
    protocol = listing()
    ask(protocol)
    protocol.list_opened()
    protocol.disconnected(1.0)
    assert shown(protocol.receive_list(page("9", service("a", 3)))) == []
    assert shown(protocol.listed()) == []


def test_reports_after_the_end_of_a_watch_are_ignored() -> None:
    protocol = watching("5")
    protocol.disconnected(30.0)
    assert shown(protocol.receive(event("ADDED", service("a", 8)))) == []
    assert protocol.closed(31.0) == []
    assert protocol.idle(31.0) == []


# --- objects that do not decode ---------------------------------------------------------------


def test_an_object_that_does_not_decode_is_skipped_and_the_version_goes_on() -> None:
    protocol = watching("5")
    stream = event("ADDED", unreadable("a", 8)) + event("ADDED", service("b", 9))
    assert shown(protocol.receive(stream)) == ["?a@8", "=a", "+b@9"]
    error, kept = protocol.receive(event("MODIFIED", unreadable("b", 10)))
    assert isinstance(error, UndecodableObject)
    assert ObjectKey("ns", "b") == error.key
    assert Keep(Kind.SERVICE, ObjectKey("ns", "b")) == kept
    protocol.disconnected(30.0)
    assert watch("10") == asked(protocol)


def test_an_object_without_readable_metadata_is_skipped_and_the_version_stays() -> None:
    protocol = watching("5")
    stream = event("ADDED", {"metadata": 7})
    assert shown(protocol.receive(stream)) == ["?@"]
    protocol.disconnected(30.0)
    assert watch("5") == asked(protocol)


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_of_any_depth_is_read_in_a_watch(type_: str) -> None:
    protocol = watching("5", service("a", 3))
    stream = deeper(event(type_, service("a", 8))) + event("ADDED", service("b", 9))
    sign = "-a" if type_ == "DELETED" else "+a@8"
    assert shown(protocol.receive(stream)) == [sign, "+b@9"]


def test_an_object_of_any_depth_is_read_in_a_list() -> None:
    protocol = listing()
    ask(protocol)
    body = deeper(page("9", service("a", 3), unreadable("b", 4), service("c", 5)))
    assert shown(listed(protocol, body)) == ["reset", "+a@3", "?b@4", "=b", "+c@5", "synced"]


def test_an_object_that_is_not_utf_8_is_skipped() -> None:
    protocol = watching("5")
    stream = event("ADDED", service("a", 8, externalIPs=["?"])).replace(b"?", b"\xff")
    stream += event("ADDED", service("b", 9))
    assert shown(protocol.receive(stream)) == ["?a@8", "=a", "+b@9"]


def test_a_deletion_needs_no_more_than_the_name() -> None:
    protocol = watching("5", service("a", 3))
    assert shown(protocol.receive(event("DELETED", unreadable("a", 8)))) == ["-a"]


def test_one_bad_item_spoils_nothing_in_a_list() -> None:
    protocol = listing()
    ask(protocol)
    body = page("9", service("a", 3), unreadable("b", 4), {"metadata": 7}, service("c", 5))
    expected = ["reset", "+a@3", "?b@4", "=b", "?@", "+c@5", "synced"]
    assert expected == shown(listed(protocol, body))


def test_a_known_object_that_no_longer_decodes_survives_a_relist() -> None:
    protocol = watching("5", service("a", 1), service("b", 2), service("c", 3))
    list(protocol.receive(error_event(EXPIRED)))
    open_stream(protocol)
    stream = event("ADDED", unreadable("b", 8)) + event("ADDED", service("c", 3))
    assert shown(protocol.receive(stream)) == ["?b@8", "=b", "+c@3"]
    assert shown(protocol.receive(bookmark("9", ends=True))) == ["synced"]
    protocol.disconnected(30.0)
    assert watch("9") == asked(protocol)


def test_an_object_that_does_not_decode_survives_every_relist() -> None:
    protocol = watching("5", service("a", 1), service("b", 2))
    for _ in range(2):
        list(protocol.receive(error_event(EXPIRED)))
        open_stream(protocol)
        stream = event("ADDED", unreadable("b", 8)) + bookmark("9", ends=True)
        assert shown(protocol.receive(stream)) == ["?b@8", "=b", "synced"]


def test_after_an_incomplete_relist_the_next_one_begins_with_a_reset() -> None:
    protocol = watching("5", service("a", 1))
    list(protocol.receive(error_event(EXPIRED)))
    open_stream(protocol)
    list(protocol.receive(event("ADDED", service("x", 7))))
    protocol.disconnected(3.0)
    assert open_stream(protocol) == ["reset"]
    stream = event("ADDED", unreadable("a", 8)) + bookmark("9", ends=True)
    assert shown(protocol.receive(stream)) == ["?a@8", "=a", "synced"]


def test_an_object_that_decodes_again_within_a_relist_is_updated() -> None:
    protocol = watching("5", service("a", 1), service("b", 2))
    list(protocol.receive(error_event(EXPIRED)))
    open_stream(protocol)
    stream = (
        event("ADDED", unreadable("a", 8))
        + event("MODIFIED", service("a", 9))
        + event("ADDED", unreadable("b", 8))
        + event("DELETED", service("b", 10))
        + bookmark("11", ends=True)
    )
    assert shown(protocol.receive(stream)) == ["?a@8", "=a", "+a@9", "?b@8", "=b", "-b", "synced"]


def test_a_list_always_ends_with_synced() -> None:
    protocol = ListWatch(SERVICES)
    open_stream(protocol)
    list(protocol.receive(event("ADDED", service("a", 1))))
    protocol.disconnected(3.0)
    open_stream(protocol)
    stream = event("ADDED", unreadable("a", 8)) + bookmark("9", ends=True)
    assert shown(protocol.receive(stream)) == ["?a@8", "=a", "synced"]
