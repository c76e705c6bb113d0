from kubeproxy.base.bursts import Bursts


def test_what_happens_in_a_row_is_one_burst() -> None:
    bursts = Bursts()
    moments = (0.0, 1.0, 60.0, 120.0, 180.5, 181.0)
    assert [moment for moment in moments if bursts.begins(moment)] == [0.0, 180.5]
