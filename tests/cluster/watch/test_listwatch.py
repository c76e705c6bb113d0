"""The list+watch machine: what it asks, what it says, and how it comes back from trouble."""

from collections.abc import Callable, Iterable

import pytest

from cluster.apijson import (
    BROKEN,
    BUSY,
    EXPIRED,
    FORBIDDEN,
    GATE_OFF,
    TOO_LARGE,
    UNAVAILABLE,
    bookmark,
    deeper,
    error_event,
    event,
    page,
    service,
    unreadable,
)
from kubeproxy.cluster.client.resources import SERVICES
from kubeproxy.cluster.client.status import Status
from kubeproxy.cluster.events import Delete, Reset, Synced, Upsert
from kubeproxy.cluster.objects.meta import ObjectKey
from kubeproxy.cluster.watch.listwatch import ListWatch, Request, Verb
from kubeproxy.cluster.watch.setbacks import Reason, Saying, Setback, Skipped


def shown(sayings: Iterable[Saying]) -> list[str]:
    """Sayings as short texts: `+a@1` upserted at version 1, `-a` deleted, and so on."""
    return [_shown(saying) for saying in sayings]


def _shown(saying: Saying) -> str:
    match saying:
        case Reset():
            return "reset"
        case Synced():
            return "synced"
        case Upsert(object=found):
            return f"+{found.metadata.name}@{found.metadata.resource_version}"
        case Delete(key=key):
            return f"-{key.name}"
        case Skipped(error=error, version=version):
            return f"?{error.key.name if error.key else ''}@{version}"
        case Setback(reason=reason):
            return reason.name


def ask(machine: ListWatch, now: float = 0.0, chance: float = 0.0) -> Request:
    return machine.next_request(now, chance)


def asked(machine: ListWatch, now: float = 0.0) -> str:
    """The next request as text, without what is the same in all: selectors and timeout."""
    request = ask(machine, now)
    left_out = ("labelSelector", "fieldSelector", "allowWatchBookmarks", "timeoutSeconds")
    words = [f"{key}={value}" for key, value in request.query if key not in left_out]
    wait = "wait, " if request.delay else ""
    return f"{wait}{request.verb.value}: {'&'.join(words)}"


WATCH_LIST = "watch: watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def watch_list(version: str = "") -> str:
    return WATCH_LIST + (f"&resourceVersion={version}" if version else "")


def watch(version: str) -> str:
    return f"watch: watch=true&resourceVersion={version}"


def open_stream(machine: ListWatch, now: float = 0.0) -> list[str]:
    ask(machine, now)
    return shown(machine.opened(now))


def watching(version: str = "5", *objects: dict[str, object]) -> ListWatch:
    """A machine that has told everything and whose stream is open."""
    machine = ListWatch(SERVICES)
    open_stream(machine)
    for obj in objects:
        list(machine.receive(event("ADDED", obj)))
    assert shown(machine.receive(bookmark(version, ends=True))) == ["synced"]
    return machine


def listing() -> ListWatch:
    """A machine whose server serves no watch-list, so that it lists."""
    machine = ListWatch(SERVICES)
    ask(machine)
    machine.refused(GATE_OFF)
    return machine


# --- what is asked ----------------------------------------------------------------------------


def test_the_first_request_is_a_watch_list_with_the_selectors_and_a_chance_timeout() -> None:
    expected = Request(
        Verb.WATCH,
        (
            ("labelSelector", "!service.kubernetes.io/service-proxy-name"),
            ("fieldSelector", "spec.clusterIP!=None"),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("timeoutSeconds", "450"),
        ),
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
    machine = watching()
    list(machine.closed(400.0))
    assert ("timeoutSeconds", seconds) in ask(machine, chance=chance).query


def test_without_the_gate_the_first_request_is_a_list() -> None:
    assert asked(ListWatch(SERVICES, watch_list=False)) == "list: limit=500&resourceVersion=0"


def test_without_the_gate_a_later_telling_is_a_list_at_the_last_version() -> None:
    machine = ListWatch(SERVICES, watch_list=False)
    ask(machine)
    list(machine.received_list(page("9")))
    ask(machine)
    machine.opened(0.0)
    list(machine.receive(error_event(BROKEN)))
    assert asked(machine) == "wait, list: resourceVersion=9"


# --- a watch-list -----------------------------------------------------------------------------


def test_a_watch_list_tells_everything_and_goes_on_as_the_watch() -> None:
    machine = ListWatch(SERVICES)
    assert not machine.told
    assert open_stream(machine) == ["reset"]
    stream = (
        event("ADDED", service("a", 3))
        + event("ADDED", service("b", 4))
        + bookmark("7", ends=True)
        + event("MODIFIED", service("a", 8))
        + event("DELETED", service("b", 9))
    )
    assert shown(machine.receive(stream)) == ["+a@3", "+b@4", "synced", "+a@8", "-b"]
    assert machine.streaming
    assert machine.told
    assert machine.closed(400.0) == []
    assert not machine.streaming
    assert watch("9") == asked(machine)


def test_changes_before_the_end_of_the_initial_events_are_told_in_order() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    stream = (
        event("ADDED", service("a", 3))
        + event("MODIFIED", service("a", 8))
        + event("DELETED", service("a", 9))
        + bookmark("9", ends=True)
    )
    assert shown(machine.receive(stream)) == ["+a@3", "+a@8", "-a", "synced"]


def test_a_bookmark_without_the_mark_does_not_end_the_initial_events() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    assert shown(machine.receive(bookmark("9"))) == []
    machine.broke(5.0)
    assert f"wait, {watch_list()}" == asked(machine)


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
    assert by_status.refused(status) is not None
    assert expected == asked(by_status)
    open_stream(by_event)
    assert len(list(by_event.receive(error_event(status)))) == 1
    assert not by_event.streaming
    assert expected == asked(by_event)


@pytest.mark.parametrize("status", [EXPIRED, TOO_LARGE], ids=["expired", "too-large"])
def test_a_watch_list_at_a_useless_version_is_repeated_without_then_becomes_a_list(
    status: Status,
) -> None:
    machine = watching("5")
    assert shown(machine.receive(error_event(EXPIRED))) == ["EXPIRED"]
    assert f"wait, {watch_list('5')}" == asked(machine)
    assert machine.refused(status) is None
    assert watch_list() == asked(machine)
    assert machine.refused(status) is not None
    assert asked(machine) == "list: limit=500"


def test_an_error_event_about_the_version_has_the_watch_list_repeated_without() -> None:
    machine = watching("5")
    list(machine.receive(error_event(EXPIRED)))
    assert open_stream(machine) == ["reset"]
    assert shown(machine.receive(error_event(TOO_LARGE))) == []
    assert watch_list() == asked(machine)
    assert shown(machine.opened(0.0)) == ["reset"]
    assert shown(machine.receive(bookmark("2", ends=True))) == ["synced"]
    machine.broke(9.0)
    assert watch("2") == asked(machine)


def test_the_fallback_to_a_list_holds_for_one_round_only() -> None:
    machine = listing()
    ask(machine)
    list(machine.received_list(page("9")))
    open_stream(machine)
    list(machine.receive(error_event(BROKEN)))
    assert f"wait, {watch_list('9')}" == asked(machine)


def test_a_watch_list_that_is_closed_at_once_becomes_a_list() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    assert shown(machine.closed(0.5)) == ["UNFINISHED"]
    assert asked(machine) == "list: limit=500&resourceVersion=0"


def test_a_watch_list_that_is_closed_half_way_begins_from_scratch() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    list(machine.receive(event("ADDED", service("a", 3))))
    assert shown(machine.closed(0.5)) == ["UNFINISHED"]
    assert f"wait, {watch_list()}" == asked(machine)
    assert shown(machine.opened(3.0)) == ["reset"]


def test_a_watch_list_that_breaks_half_way_begins_from_scratch() -> None:
    machine = watching("5")
    list(machine.receive(error_event(BROKEN)))
    open_stream(machine)
    list(machine.receive(event("ADDED", service("a", 30))))
    machine.broke(90.0)
    assert f"wait, {watch_list('5')}" == asked(machine)


def test_a_watch_list_without_its_end_is_waited_for_a_minute() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    assert machine.patience == 10.0
    for wait in range(1, 6):
        assert [Setback(Reason.NO_BOOKMARK)] == machine.quiet(wait * 10.0)
        assert machine.streaming
    assert [Setback(Reason.NEVER_COMPLETE)] == machine.quiet(60.0)
    assert not machine.streaming
    assert asked(machine) == "list: limit=500&resourceVersion=0"


def test_initial_events_that_end_without_a_version_are_not_the_protocol() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    assert shown(machine.receive(bookmark("", ends=True))) == ["GARBAGE"]
    assert asked(machine) == "list: limit=500&resourceVersion=0"


# --- a list -----------------------------------------------------------------------------------


def test_a_list_tells_everything_and_is_followed_by_a_watch_from_its_version() -> None:
    machine = listing()
    assert asked(machine) == "list: limit=500&resourceVersion=0"
    body = page("9", service("a", 3), service("b", 4))
    assert shown(machine.received_list(body)) == ["reset", "+a@3", "+b@4", "synced"]
    assert watch("9") == asked(machine)
    assert machine.opened(0.0) == []
    assert shown(machine.receive(event("ADDED", service("c", 11)))) == ["+c@11"]


def test_a_list_may_have_null_for_no_items() -> None:
    machine = listing()
    ask(machine)
    body = b'{"metadata":{"resourceVersion":"9"},"items":null}'
    assert shown(machine.received_list(body)) == ["reset", "synced"]


def test_a_paged_list_is_one_telling() -> None:
    machine = listing()
    ask(machine)
    first = page("9", service("a", 3), token="t1")
    assert shown(machine.received_list(first)) == ["reset", "+a@3"]
    assert asked(machine) == "list: limit=500&continue=t1"
    assert shown(machine.received_list(page("9", service("b", 4), token="t2"))) == ["+b@4"]
    assert asked(machine) == "list: limit=500&continue=t2"
    assert shown(machine.received_list(page("9", service("c", 5)))) == ["+c@5", "synced"]
    assert watch("9") == asked(machine)


def test_a_page_that_does_not_arrive_is_asked_for_again() -> None:
    machine = listing()
    ask(machine)
    list(machine.received_list(page("9", service("a", 3), token="t1")))
    ask(machine)
    machine.broke(1.0)
    assert asked(machine) == "wait, list: limit=500&continue=t1"
    assert shown(machine.received_list(page("9"))) == ["synced"]


def test_an_expired_continue_token_leads_to_one_list_without_pages() -> None:
    machine = listing()
    ask(machine)
    list(machine.received_list(page("9", service("a", 3), token="t1")))
    ask(machine)
    assert machine.refused(EXPIRED) is None
    assert asked(machine) == "list: resourceVersion=0"
    assert shown(machine.received_list(page("9", service("b", 4)))) == ["reset", "+b@4", "synced"]


def test_a_list_without_pages_that_has_expired_too_is_asked_for_without_a_version() -> None:
    machine = listing()
    ask(machine)
    list(machine.received_list(page("9", token="t1")))
    ask(machine)
    machine.refused(EXPIRED)
    ask(machine)
    assert machine.refused(EXPIRED) is None
    assert asked(machine) == "list: limit=500"


def test_a_cache_that_pages_is_asked_for_pages_from_then_on() -> None:
    machine = ListWatch(SERVICES, watch_list=False)
    ask(machine)
    list(machine.received_list(page("9", token="t1")))
    ask(machine)
    list(machine.received_list(page("9")))
    open_stream(machine)
    list(machine.receive(error_event(BROKEN)))
    assert asked(machine) == "wait, list: limit=500&resourceVersion=9"


def test_pages_of_a_list_without_a_version_do_not_count_as_those_of_a_cache() -> None:
    machine = ListWatch(SERVICES, watch_list=False)
    ask(machine)
    machine.refused(EXPIRED)
    ask(machine)
    list(machine.received_list(page("9", token="t1")))
    ask(machine)
    list(machine.received_list(page("9")))
    open_stream(machine)
    list(machine.receive(error_event(BROKEN)))
    assert asked(machine) == "wait, list: resourceVersion=9"


@pytest.mark.parametrize("status", [EXPIRED, TOO_LARGE], ids=["expired", "too-large"])
def test_a_list_at_a_useless_version_is_repeated_at_once_without(status: Status) -> None:
    machine = ListWatch(SERVICES, watch_list=False)
    ask(machine)
    list(machine.received_list(page("9")))
    open_stream(machine)
    list(machine.receive(error_event(BROKEN)))
    ask(machine)
    assert machine.refused(status) is None
    assert asked(machine) == "list: limit=500"
    setback = machine.refused(status)
    assert Setback(Reason.REFUSED, status) == setback
    assert asked(machine) == "wait, list: limit=500"


def test_a_refused_list_ends_the_round() -> None:
    machine = listing()
    ask(machine)
    assert Setback(Reason.REFUSED, FORBIDDEN) == machine.refused(FORBIDDEN)
    assert f"wait, {watch_list()}" == asked(machine)


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
    machine = listing()
    ask(machine)
    assert shown(machine.received_list(body)) == ["GARBAGE"]
    assert f"wait, {watch_list()}" == asked(machine)


# --- a watch ----------------------------------------------------------------------------------


def test_a_cut_watch_is_resumed_at_once_from_the_newest_version_seen() -> None:
    machine = watching("5")
    list(machine.receive(event("ADDED", service("a", 8)) + bookmark("12")))
    machine.broke(30.0)
    assert watch("12") == asked(machine)
    assert machine.opened(31.0) == []
    assert shown(machine.receive(event("ADDED", service("b", 13)))) == ["+b@13"]


def test_a_watch_cut_within_a_line_loses_only_that_line() -> None:
    machine = watching("5")
    line = event("ADDED", service("b", 9))
    assert shown(machine.receive(event("ADDED", service("a", 8)) + line[:-5])) == ["+a@8"]
    machine.broke(30.0)
    assert watch("8") == asked(machine)
    machine.opened(31.0)
    assert shown(machine.receive(line)) == ["+b@9"]


def test_a_watch_that_cannot_be_opened_is_tried_again_from_the_same_version() -> None:
    machine = watching("5")
    machine.broke(30.0)
    waits = []
    for _ in range(8):
        waits.append(machine.next_request(30.0, 0.5).delay)
        machine.broke(30.0)
    assert pytest.approx(waits) == [0.0, 1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0]
    assert f"wait, {watch('5')}" == asked(machine)


def test_the_waits_are_short_again_after_two_quiet_minutes() -> None:
    machine = ListWatch(SERVICES)
    for _ in range(5):
        machine.next_request(0.0, 0.0)
        machine.broke(0.0)
    assert pytest.approx(machine.next_request(0.0, 0.0).delay) == 12.8
    machine.broke(0.0)
    assert pytest.approx(machine.next_request(133.0, 0.0).delay) == 0.8


def test_a_telling_does_not_wait_longer_because_the_server_was_away() -> None:
    machine = watching("5")
    for _ in range(6):
        machine.broke(30.0)
        machine.next_request(30.0, 0.0)
    machine.opened(30.0)
    list(machine.receive(error_event(EXPIRED)))
    assert machine.next_request(30.0, 0.0).delay == pytest.approx(0.8)


def test_a_watch_that_ends_in_order_is_opened_again_at_once() -> None:
    machine = watching("5")
    assert machine.closed(300.0) == []
    assert watch("5") == asked(machine)


def test_a_watch_that_is_cut_right_away_is_opened_again_after_a_wait() -> None:
    machine = watching("5")
    machine.broke(0.2)
    assert f"wait, {watch('5')}" == asked(machine)


def test_a_watch_that_ends_right_after_an_event_is_opened_again_after_a_wait() -> None:
    machine = watching("5")
    assert machine.closed(0.2) == []
    assert f"wait, {watch('5')}" == asked(machine)


@pytest.mark.parametrize("end", [ListWatch.broke, ListWatch.closed], ids=["cut", "ended"])
def test_streams_that_bring_news_are_followed_however_often_they_are_cut_short(
    end: Callable[[ListWatch, float], object],
) -> None:
    machine = watching("5")
    waits = []
    for number in range(20):
        list(machine.receive(event("ADDED", service("a", 10 + number))))
        end(machine, number + 0.9)
        waits.append(machine.next_request(number + 0.9, 0.5).delay)
        machine.opened(number + 1.0)
    assert pytest.approx(waits) == [1.2] * 20


def test_a_telling_that_is_cut_short_is_tried_ever_later() -> None:
    machine = ListWatch(SERVICES)
    waits = []
    for _ in range(4):
        waits.append(machine.next_request(0.0, 0.5).delay)
        machine.opened(0.0)
        list(machine.receive(event("ADDED", service("a", 10))))
        machine.broke(0.9)
    assert pytest.approx(waits) == [0.0, 1.2, 2.4, 4.8]


def test_a_watch_that_ends_at_once_without_an_event_has_everything_told_anew() -> None:
    machine = watching("5")
    machine.broke(30.0)
    open_stream(machine, 30.0)
    assert shown(machine.closed(30.9)) == ["SHORT"]
    assert f"wait, {watch_list('5')}" == asked(machine)


def test_a_watch_without_any_bookmark_to_its_end_has_everything_told_anew() -> None:
    machine = watching("5")
    machine.broke(30.0)
    open_stream(machine, 30.0)
    assert shown(machine.closed(330.0)) == ["SUSPECT"]
    assert f"wait, {watch_list('5')}" == asked(machine)


def test_a_short_watch_without_a_bookmark_is_just_opened_again() -> None:
    machine = watching("5")
    machine.broke(30.0)
    open_stream(machine, 30.0)
    assert machine.closed(90.0) == []
    assert watch("5") == asked(machine)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(EXPIRED, "EXPIRED", watch_list("5"), id="expired"),
        pytest.param(TOO_LARGE, "EXPIRED", watch_list("5"), id="too-large"),
        pytest.param(BUSY, "NOT_NOW", watch("5"), id="too-many-requests"),
        pytest.param(UNAVAILABLE, "NOT_NOW", watch("5"), id="unavailable"),
        pytest.param(FORBIDDEN, "REFUSED", watch_list("5"), id="forbidden"),
        pytest.param(BROKEN, "REFUSED", watch_list("5"), id="internal-error"),
    ],
)
def test_a_refused_watch(status: Status, reason: str, expected: str) -> None:
    machine = watching("5")
    machine.broke(30.0)
    ask(machine)
    setback = machine.refused(status)
    assert setback is not None
    assert reason == setback.reason.name
    assert f"wait, {expected}" == asked(machine)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        pytest.param(EXPIRED, "EXPIRED", watch_list("5"), id="expired"),
        pytest.param(BUSY, "NOT_NOW", watch("5"), id="too-many-requests"),
        pytest.param(BROKEN, "ERROR_EVENT", watch_list("5"), id="internal-error"),
    ],
)
def test_an_error_event_in_a_watch_ends_the_stream(
    status: Status, reason: str, expected: str
) -> None:
    machine = watching("5")
    later = event("ADDED", service("never", 99))
    assert [reason] == shown(machine.receive(error_event(status) + later))
    assert not machine.streaming
    assert f"wait, {expected}" == asked(machine)


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
    machine = watching("5")
    stream = event("ADDED", service("a", 8)) + data + event("ADDED", service("b", 9))
    assert shown(machine.receive(stream)) == ["+a@8", "GARBAGE"]
    assert not machine.streaming
    assert f"wait, {watch_list('8')}" == asked(machine)


def test_garbage_in_a_watch_list_leads_to_a_list() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    assert shown(machine.receive(b"<html>\n")) == ["GARBAGE"]
    assert asked(machine) == "list: limit=500&resourceVersion=0"


def test_a_line_without_end_is_not_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = watching("5")
    monkeypatch.setattr("kubeproxy.cluster.watch.lines.LONGEST_LINE", 100)
    assert shown(machine.receive(b"x" * 60)) == []
    assert shown(machine.receive(b"x" * 60)) == ["GARBAGE"]
    assert not machine.streaming


def test_a_last_line_without_its_end_counts_if_it_reads() -> None:
    machine = watching("5")
    assert shown(machine.receive(event("ADDED", service("a", 8)).rstrip())) == []
    assert shown(machine.closed(400.0)) == ["+a@8"]
    assert watch("8") == asked(machine)


def test_a_truncated_last_line_has_everything_told_anew() -> None:
    machine = watching("5")
    list(machine.receive(event("ADDED", service("a", 8))[:-9]))
    assert shown(machine.closed(400.0)) == ["GARBAGE"]
    assert f"wait, {watch_list('5')}" == asked(machine)


def test_an_event_of_unknown_type_is_skipped() -> None:
    machine = watching("5")
    stream = event("RENAMED", service("a", 8)) + event("ADDED", service("b", 9))
    assert shown(machine.receive(stream)) == ["UNKNOWN_EVENT", "+b@9"]


def test_a_known_object_may_be_added_again() -> None:
    machine = watching("5", service("a", 3))
    assert shown(machine.receive(event("ADDED", service("a", 8)))) == ["+a@8"]


def test_deleting_what_nobody_knows_is_told_all_the_same() -> None:
    assert shown(watching("5").receive(event("DELETED", service("a", 8)))) == ["-a"]


def test_a_watch_without_a_sign_of_life_is_opened_again() -> None:
    machine = watching("5")
    machine.broke(30.0)
    machine.next_request(30.0, 0.5)
    machine.opened(30.0)
    assert machine.patience == 450.0 + 30.0
    list(machine.receive(bookmark("7")))
    assert machine.patience == 180.0
    assert [Setback(Reason.SILENT)] == machine.quiet(300.0)
    assert not machine.streaming
    assert watch("7") == asked(machine)


def test_a_closed_machine_takes_late_reports_in_its_stride() -> None:
    machine = watching("5")
    machine.broke(30.0)
    assert shown(machine.receive(event("ADDED", service("a", 8)))) == []
    assert machine.closed(31.0) == []
    assert machine.quiet(31.0) == []


# --- objects that do not decode ---------------------------------------------------------------


def test_an_object_that_does_not_decode_is_skipped_and_the_version_goes_on() -> None:
    machine = watching("5")
    stream = event("ADDED", unreadable("a", 8)) + event("ADDED", service("b", 9))
    assert shown(machine.receive(stream)) == ["?a@8", "+b@9"]
    (skipped,) = machine.receive(event("MODIFIED", unreadable("b", 10)))
    assert isinstance(skipped, Skipped)
    assert ObjectKey("ns", "b") == skipped.error.key
    machine.broke(30.0)
    assert watch("10") == asked(machine)


def test_an_object_without_readable_metadata_is_skipped_and_the_version_stays() -> None:
    machine = watching("5")
    stream = event("ADDED", {"metadata": 7})
    assert shown(machine.receive(stream)) == ["?@"]
    machine.broke(30.0)
    assert watch("5") == asked(machine)


@pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_of_any_depth_is_read_in_a_watch(type_: str) -> None:
    machine = watching("5", service("a", 3))
    stream = deeper(event(type_, service("a", 8))) + event("ADDED", service("b", 9))
    sign = "-a" if type_ == "DELETED" else "+a@8"
    assert shown(machine.receive(stream)) == [sign, "+b@9"]


def test_an_object_of_any_depth_is_read_in_a_list() -> None:
    machine = listing()
    ask(machine)
    body = deeper(page("9", service("a", 3), unreadable("b", 4), service("c", 5)))
    assert shown(machine.received_list(body)) == ["reset", "+a@3", "?b@4", "+c@5", "synced"]


def test_an_object_that_is_not_utf_8_is_skipped() -> None:
    machine = watching("5")
    stream = event("ADDED", service("a", 8, externalIPs=["?"])).replace(b"?", b"\xff")
    assert shown(machine.receive(stream + event("ADDED", service("b", 9)))) == ["?a@8", "+b@9"]


def test_a_deletion_needs_no_more_than_the_name() -> None:
    machine = watching("5", service("a", 3))
    assert shown(machine.receive(event("DELETED", unreadable("a", 8)))) == ["-a"]


def test_one_bad_item_spoils_nothing_in_a_list() -> None:
    machine = listing()
    ask(machine)
    body = page("9", service("a", 3), unreadable("b", 4), {"metadata": 7}, service("c", 5))
    assert shown(machine.received_list(body)) == ["reset", "+a@3", "?b@4", "?@", "+c@5", "synced"]


def test_a_known_object_that_no_longer_decodes_survives_a_new_telling() -> None:
    machine = watching("5", service("a", 1), service("b", 2), service("c", 3))
    list(machine.receive(error_event(EXPIRED)))
    open_stream(machine)
    stream = event("ADDED", unreadable("b", 8)) + event("ADDED", service("c", 3))
    assert shown(machine.receive(stream)) == ["?b@8", "+c@3"]
    # No Synced, which would remove b: what is really gone is deleted by name.
    assert shown(machine.receive(bookmark("9", ends=True))) == ["-a"]
    machine.broke(30.0)
    assert watch("9") == asked(machine)


def test_an_object_that_does_not_decode_survives_every_new_telling() -> None:
    machine = watching("5", service("a", 1), service("b", 2))
    for gone in ([], ["-a"]):
        list(machine.receive(error_event(EXPIRED)))
        open_stream(machine)
        kept = event("ADDED", unreadable("b", 8))
        others = b"" if gone else event("ADDED", service("a", 1))
        list(machine.receive(kept + others))
        assert gone == shown(machine.receive(bookmark("9", ends=True)))


def test_what_a_broken_telling_told_and_the_next_does_not_is_deleted() -> None:
    machine = watching("5", service("a", 1))
    list(machine.receive(error_event(EXPIRED)))
    open_stream(machine)
    list(machine.receive(event("ADDED", service("x", 7))))
    machine.broke(3.0)
    open_stream(machine)
    stream = event("ADDED", unreadable("a", 8)) + bookmark("9", ends=True)
    assert shown(machine.receive(stream)) == ["?a@8", "-x"]


def test_an_object_that_decodes_again_within_a_telling_needs_no_care() -> None:
    machine = watching("5", service("a", 1), service("b", 2))
    list(machine.receive(error_event(EXPIRED)))
    open_stream(machine)
    stream = (
        event("ADDED", unreadable("a", 8))
        + event("MODIFIED", service("a", 9))
        + event("ADDED", unreadable("b", 8))
        + event("DELETED", service("b", 10))
        + bookmark("11", ends=True)
    )
    assert shown(machine.receive(stream)) == ["?a@8", "+a@9", "?b@8", "-b", "synced"]


def test_the_first_telling_always_ends_with_synced() -> None:
    machine = ListWatch(SERVICES)
    open_stream(machine)
    list(machine.receive(event("ADDED", service("a", 1))))
    machine.broke(3.0)
    open_stream(machine)
    stream = event("ADDED", unreadable("a", 8)) + bookmark("9", ends=True)
    assert shown(machine.receive(stream)) == ["?a@8", "synced"]
