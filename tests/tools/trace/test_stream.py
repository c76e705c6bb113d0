from kubeproxy.tools.trace.connections import Traced, index, parse_filter
from kubeproxy.tools.trace.stream import Bounds, Trace
from linux.netlink.test_conntrack import ping
from tools.trace.shop import KNOWN, event

TO = "10.112.0.21:80"
OURS = event("10.64.3.50:40000", "10.112.0.21:80", "10.64.3.11:8080")
OURS_TOO = event("10.64.3.51:40000", "10.112.0.21:80", "10.65.7.21:8080")
OF_OTHERS = event("10.64.3.50:40000", "10.112.0.22:80", "10.64.3.11:8080")
OF_ANOTHER_NODE = event("10.64.3.50:40000", "198.51.100.99:31080", "198.51.100.99:31080")


def traced(bounds: Bounds, *events: bytes) -> tuple[Trace, list[str]]:
    """The trace after these events, and the clients of what it showed."""
    shown: list[Traced] = []
    trace = Trace(KNOWN, bounds, shown.append)
    for each in events:
        trace.take(each)
    return trace, [str(each.client) for each in shown]


def test_connections_of_others_are_passed_over() -> None:
    trace, shown = traced(Bounds(), OF_OTHERS, ping(), OURS, OF_ANOTHER_NODE)
    assert shown == ["10.64.3.50:40000"]
    assert (trace.seen, trace.shown) == (1, 1)


def test_what_is_filtered_out_does_not_count() -> None:
    wanted = parse_filter(["10.64.3.51"], [])
    trace, shown = traced(Bounds(wanted), OURS, OURS_TOO)
    assert (shown, trace.seen) == (["10.64.3.51:40000"], 1)


def test_what_comes_too_fast_is_counted_and_not_shown() -> None:
    trace, shown = traced(Bounds(rate=1), OURS, OURS_TOO, OURS)
    assert shown == ["10.64.3.50:40000"]
    assert (trace.seen, trace.shown) == (3, 1)
    assert trace.begin_second() == 2
    trace.take(OURS)
    trace.take(OURS)
    assert (len(shown), trace.shown) == (1, 2)
    assert trace.begin_second() == 1
    assert trace.begin_second() == 0


def test_it_is_complete_after_as_many_as_were_asked_for() -> None:
    assert not traced(Bounds(count=2), OURS)[0].is_complete
    assert traced(Bounds(count=2), OURS, OURS_TOO)[0].is_complete
    assert not traced(Bounds(), OURS, OURS_TOO)[0].is_complete


def test_news_of_the_service_count_from_the_next_event_on() -> None:
    trace, shown = traced(Bounds(), OURS)
    trace.known = index([], ())
    trace.take(OURS)
    assert len(shown) == 1


# --- the summary ------------------------------------------------------------------------------


def to(*responders: str, rate: int = 0) -> Trace:
    events = (event("10.64.3.50:40000", TO, responder) for responder in responders)
    return traced(Bounds(rate=rate), *events)[0]


def test_endpoints_by_how_often_they_were_chosen() -> None:
    trace = to("10.64.3.11:8080", *["10.65.7.210:8080"] * 3, TO, rate=3)
    assert list(trace.summary(0)) == [
        "5 connections, 3 shown, nothing lost",
        "  10.65.7.210:8080  3",
        "  10.64.3.11:8080   1",
        "  not translated    1",
    ]


def test_nothing_was_seen() -> None:
    assert list(to().summary(1234)) == ["0 connections, 0 shown, 1,234 events of this node lost"]


def test_one_connection() -> None:
    assert next(to("10.64.3.11:8080").summary(0)) == "1 connection, 1 shown, nothing lost"


def test_many_endpoints_are_counted_together() -> None:
    lines = list(to(*(f"10.64.3.11:{port}" for port in range(1, 1026))).summary(0))
    assert (len(lines), lines[-1]) == (22, "  and 1,005 more endpoints")
