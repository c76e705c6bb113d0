from kubeproxy.tools.trace.limit import Limit


def test_so_many_pass_in_a_second_and_the_rest_is_counted() -> None:
    limit = Limit(2)
    assert [limit.passes() for _ in range(5)] == [True, True, False, False, False]
    assert limit.begin_second() == 3
    assert [limit.passes() for _ in range(3)] == [True, True, False]
    assert limit.begin_second() == 1
    assert limit.begin_second() == 0


def test_without_a_limit_all_pass() -> None:
    limit = Limit(0)
    assert all(limit.passes() for _ in range(1000))
    assert limit.begin_second() == 0
