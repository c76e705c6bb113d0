"""When the log hears of trouble."""

from kubeproxy.cluster.watch.complaints import Complaint, Cry, Relief


def test_an_outage_is_one_line_a_period_for_all_parties_and_one_at_its_end() -> None:
    complaint = Complaint(60.0)
    assert Cry(0.0) == complaint.failed("services", 100.0)
    assert complaint.failed("nodes", 101.0) is None
    assert complaint.failed("services", 159.0) is None
    assert Cry(61.0) == complaint.failed("nodes", 161.0)
    assert complaint.worked("services", 170.0) is None
    assert Relief(72.0) == complaint.worked("nodes", 172.0)
    assert complaint.worked("nodes", 173.0) is None


def test_it_lasts_from_the_first_failure_until_it_works_for_everybody() -> None:
    complaint = Complaint(60.0)
    assert complaint.lasting(100.0) is None
    complaint.failed("services", 100.0)
    complaint.failed("nodes", 101.0)
    assert complaint.lasting(103.0) == 3.0
    complaint.worked("services", 104.0)
    assert complaint.lasting(105.0) == 5.0
    complaint.worked("nodes", 106.0)
    assert complaint.lasting(107.0) is None


def test_what_always_worked_is_not_worth_a_line() -> None:
    assert Complaint(60.0).worked("services", 1.0) is None


def test_flapping_does_not_make_more_lines() -> None:
    complaint = Complaint(60.0)
    assert Cry(0.0) == complaint.failed("services", 100.0)
    assert Relief(1.0) == complaint.worked("services", 101.0)
    assert complaint.failed("services", 102.0) is None
    assert complaint.worked("services", 103.0) is None
    assert complaint.failed("services", 104.0) is None
    assert Cry(56.0) == complaint.failed("services", 160.0)
