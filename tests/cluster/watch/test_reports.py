"""When an outage is worth a log line."""

from kubeproxy.cluster.watch.reports import Outage


def test_an_outage_is_one_line_a_period_for_all_clients_and_one_at_its_end() -> None:
    outage = Outage(60.0)
    assert outage.failed("services", "no route", 100.0) == 0.0
    assert outage.failed("nodes", "no route", 101.0) is None
    assert outage.failed("services", "no route", 159.0) is None
    assert outage.failed("nodes", "no route", 161.0) == 61.0
    assert outage.worked("services", 170.0) is None
    assert outage.worked("nodes", 172.0) == 72.0
    assert outage.worked("nodes", 173.0) is None


def test_it_lasts_from_the_first_failure_until_it_works_for_all_clients() -> None:
    outage = Outage(60.0)
    assert outage.duration(100.0) is None
    outage.failed("services", "no route", 100.0)
    outage.failed("nodes", "no route", 101.0)
    assert outage.duration(103.0) == 3.0
    outage.worked("services", 104.0)
    assert outage.duration(105.0) == 5.0
    outage.worked("nodes", 106.0)
    assert outage.duration(107.0) is None


def test_what_always_worked_is_not_worth_a_line() -> None:
    assert Outage(60.0).worked("services", 1.0) is None


def test_flapping_does_not_make_more_lines() -> None:
    outage = Outage(60.0)
    assert outage.failed("services", "no route", 100.0) == 0.0
    assert outage.worked("services", 101.0) == 1.0
    assert outage.failed("services", "no route", 102.0) is None
    assert outage.worked("services", 103.0) is None
    assert outage.failed("services", "no route", 104.0) is None
    assert outage.failed("services", "no route", 160.0) == 56.0
