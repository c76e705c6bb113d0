"""Work in steps comes to what it would come to without them, and no step is long."""

from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.steps import PART, RUN, Steps, finish, in_order


def counting(times: int) -> Steps[int]:
    for _ in range(times):
        yield
    return times


@given(st.integers(0, 5))
def test_the_steps_come_to_what_they_return(times: int) -> None:
    assert times == finish(counting(times))


@given(st.lists(st.text()))
def test_texts_are_sorted(texts: list[str]) -> None:
    assert finish(in_order(texts)) == sorted(texts)


def test_many_texts_are_sorted_in_runs_which_are_then_merged() -> None:
    texts = [str(number * 7919 % 20_011) for number in range(20_000)]
    assert sorted(texts) == finish(in_order(texts))
    steps = list(in_order(texts))
    assert len(steps) == -(-len(texts) // RUN) + len(texts) // PART
