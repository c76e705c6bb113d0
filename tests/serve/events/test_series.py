from kubeproxy.serve.events.event import (
    Event,
    Occurrence,
    Subject,
    service_health_port_failed,
    starting,
)
from kubeproxy.serve.events.series import FORGOTTEN_AFTER, SENT_EVERY, Series

SECOND = 10**9
EVENT = starting("kestrel", "nftables")


def refused(service: str, error: str = "taken") -> Event:
    return service_health_port_failed("kestrel", Subject("Service", service, "shop"), 30080, error)


def test_the_first_and_the_second_are_sent_and_others_counted() -> None:
    series = Series()
    sent = [series.observe(EVENT, moment) for moment in (1, 2, 3, 4)]
    expected = [Occurrence(EVENT, 1, 1), Occurrence(EVENT, 1, 2, count=2), None, None]
    assert expected == sent


def test_events_of_others_or_for_other_reasons_are_no_series() -> None:
    series = Series()
    events = [EVENT, starting("heron", "nftables"), refused("cart"), refused("till")]
    assert [occurrence.count for event in events if (occurrence := series.observe(event, 1))] == [
        1,
        1,
        1,
        1,
    ]


def test_another_note_does_not_make_another_event() -> None:
    series = Series()
    series.observe(refused("cart"), 1)
    assert series.observe(refused("cart", "refused"), 2) == Occurrence(
        refused("cart"), 1, 2, count=2
    )


def test_nothing_is_due_while_nothing_is_remembered() -> None:
    assert Series().next_due() is None


def test_a_single_event_is_forgotten_in_silence() -> None:
    series = Series()
    series.observe(EVENT, 5)
    assert series.next_due() == 5 + FORGOTTEN_AFTER
    assert series.due(5 + FORGOTTEN_AFTER) == []
    assert series.next_due() is None
    again = 6 + FORGOTTEN_AFTER
    assert series.observe(EVENT, again) == Occurrence(EVENT, again, again)


def test_an_old_event_is_a_new_one_even_before_it_is_forgotten() -> None:
    series = Series()
    series.observe(EVENT, 5)
    series.observe(EVENT, 6)
    later = 6 + FORGOTTEN_AFTER
    assert series.observe(EVENT, later) == Occurrence(EVENT, later, later)


def test_a_series_that_ends_is_sent_to_its_end_and_forgotten() -> None:
    series = Series()
    for moment in range(5):
        series.observe(EVENT, moment)
    assert series.due(4 + FORGOTTEN_AFTER - 1) == []
    assert series.due(4 + FORGOTTEN_AFTER) == [Occurrence(EVENT, 0, 4, count=5)]
    assert series.next_due() is None


def test_a_series_that_goes_on_is_sent_now_and_then() -> None:
    series = Series()
    for second in range(1801):
        series.observe(EVENT, second * SECOND)
    assert series.next_due() == 1 * SECOND + SENT_EVERY
    now = 1801 * SECOND
    assert series.due(now) == [Occurrence(EVENT, 0, 1800 * SECOND, count=1801)]
    assert series.due(now) == []
    assert series.next_due() == 1800 * SECOND + FORGOTTEN_AFTER
