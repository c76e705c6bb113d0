from kubeproxy.tools.trace import filters
from kubeproxy.tools.trace.index import Traced, index
from kubeproxy.tools.trace.stream import Bounds, Trace
from linux.netlink.test_conntrack import ping
from tools.trace.shop import KNOWN, event

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
    assert (trace.tally.seen, trace.tally.shown) == (1, 1)


def test_what_is_filtered_out_does_not_count() -> None:
    wanted = filters.parse(["10.64.3.51"], [])
    trace, shown = traced(Bounds(wanted), OURS, OURS_TOO)
    assert (shown, trace.tally.seen) == (["10.64.3.51:40000"], 1)


def test_what_comes_too_fast_is_counted_and_not_shown() -> None:
    trace, shown = traced(Bounds(rate=1), OURS, OURS_TOO, OURS)
    assert shown == ["10.64.3.50:40000"]
    assert (trace.tally.seen, trace.tally.shown) == (3, 1)
    assert trace.limit.begin_second() == 2


def test_it_is_complete_after_as_many_as_were_asked_for() -> None:
    assert not traced(Bounds(count=2), OURS)[0].is_complete
    assert traced(Bounds(count=2), OURS, OURS_TOO)[0].is_complete
    assert not traced(Bounds(), OURS, OURS_TOO)[0].is_complete


def test_news_of_the_service_count_from_the_next_event_on() -> None:
    trace, shown = traced(Bounds(), OURS)
    trace.known = index([], ())
    trace.take(OURS)
    assert len(shown) == 1
