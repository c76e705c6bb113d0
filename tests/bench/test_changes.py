import random

import pytest
from bench.changes import Expected, Fleet, Plan, SliceChange
from bench.clusters import Size, slices


def replay(size: Size, plan: Plan) -> dict[int, set[int]]:
    """The endpoints of the services that a plan touches, when all is sent."""
    parts = {
        (service, number): list(part)
        for service in range(size.services)
        for number, part in enumerate(slices(size.serials(service)))
    }
    for change in plan.changes:
        parts[change.service, change.number] = list(change.serials)
    touched = {change.service for change in plan.changes}
    return {
        service: {serial for (of, _), part in parts.items() if of == service for serial in part}
        for service in touched
    }


def test_one_change_replaces_one_endpoint() -> None:
    fleet = Fleet(Size(2, 3))
    plan = fleet.one(1)
    assert (
        Plan((SliceChange(1, 0, (6, 4, 5)),), (Expected(1, 3, frozenset({6}), frozenset({3})),))
        == plan
    )
    assert fleet.endpoints(1) == (6, 4, 5)


@pytest.mark.parametrize(
    ("size", "services"),
    [
        pytest.param(Size(50, 4), 20, id="a-service-each-while-there-are-enough"),
        pytest.param(Size(3, 250), 3, id="several-endpoints-of-few-services"),
    ],
)
def test_a_burst_is_so_many_changes_in_as_many_services_as_there_are(
    size: Size, services: int
) -> None:
    plan = Fleet(size).burst(20, random.Random(1))
    assert len(plan.changes) == 20
    assert services == len(plan.expected)
    assert sum(len(expected.here) for expected in plan.expected) == 20


@pytest.mark.parametrize("size", [Size(50, 4), Size(20, 250), Size(3, 1)], ids=str)
def test_a_rolling_update_leaves_no_endpoint_of_a_tenth_of_the_services(size: Size) -> None:
    plan = Fleet(size).rolling(0.1, random.Random(1))
    count = max(1, size.services // 10)
    assert count == len(plan.expected)
    for expected in plan.expected:
        assert set(size.serials(expected.service)) == expected.gone
        assert size.endpoints == len(expected.here)


@pytest.mark.parametrize("size", [Size(50, 4), Size(3, 250), Size(1, 1)], ids=str)
def test_what_is_expected_is_what_the_changes_lead_to(size: Size) -> None:
    for plan in (
        Fleet(size).burst(30, random.Random(2)),
        Fleet(size).rolling(0.5, random.Random(2)),
    ):
        ends = replay(size, plan)
        assert set(ends) == {expected.service for expected in plan.expected}
        assert plan.changes[-1].service == plan.expected[0].service
        for expected in plan.expected:
            assert expected.here <= ends[expected.service]
            assert not expected.gone & ends[expected.service]


def test_the_same_random_numbers_give_the_same_plan() -> None:
    plans = [Fleet(Size(50, 4)).burst(30, random.Random(7)) for _ in range(2)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("size", [Size(2, 3), Size(2, 250), Size(2, 201)], ids=str)
def test_one_endpoint_less_and_then_one_more(size: Size) -> None:
    fleet = Fleet(size)
    less = fleet.less(1)
    *left, last = size.serials(1)
    assert replay(size, less) == {1: set(left)}
    assert less.expected == (Expected(1, len(left), frozenset(), frozenset({last})),)
    more = fleet.more(1)
    assert replay(size, more) == {1: {*left, size.total}}
    assert more.expected == (Expected(1, size.endpoints, frozenset({size.total}), frozenset()),)
