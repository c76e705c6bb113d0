"""Chains that no frontend uses any more, on a kernel that keeps state."""

import pytest

from dataplane.nftables.plane import Plane, expected_elements, service
from fakes.ruleset import KernelTable
from kubeproxy.dataplane.nftables.idle import MOST_IDLE
from kubeproxy.dataplane.nftables.metrics import CLEANUP_FAILURES

A = service("a", 1)


async def test_unused_chains_do_not_pile_up(plane: Plane) -> None:
    """A service that is changed hundreds of times leaves a bounded number of them."""
    await plane.sync(A, full=True)
    used = len(plane.table.chains)
    for count in range(3, 201):
        await plane.sync(A, service("b", 2, count))
        assert len(plane.table.chains) <= used + 1 + MOST_IDLE
    assert expected_elements(A, service("b", 2, 200)) == plane.elements
    assert (await plane.sync(A, service("b", 2, 7))).failed == {}
    assert expected_elements(A, service("b", 2, 7)) == plane.elements


async def test_those_of_an_earlier_process_count_too(plane: Plane) -> None:
    await plane.sync(A, full=True)
    used = len(plane.table.chains)
    for count in range(MOST_IDLE):
        await plane.sync(A, service("b", 2, 3 + count))
    after = plane.restarted()
    await after.sync(A, full=True)
    assert len(after.table.chains) == used + MOST_IDLE
    await after.sync(A, service("b", 2, 5))  # one of those
    assert len(after.table.chains) == used + MOST_IDLE
    await after.sync(A, service("b", 2, 200))
    assert len(after.table.chains) == used + 1 + MOST_IDLE
    await after.sync(A, service("b", 2, 201))
    assert len(after.table.chains) == used + 1
    assert "pick-201" in after.table.chains


async def test_unused_chains_that_the_kernel_still_holds_are_not_forgotten(plane: Plane) -> None:
    await plane.sync(A, full=True)
    used = len(plane.table.chains)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelTable, "users_of", lambda *_: ["another chain"])
        for count in range(3, 103):
            assert (await plane.sync(A, service("b", 2, count))).failed == {}
    assert len(plane.table.chains) == used + 100
    assert plane.nftables.figures()[CLEANUP_FAILURES.name] > 0
    await plane.sync(A)
    assert len(plane.table.chains) == used


async def test_a_quarter_of_those_in_use_may_stay(plane: Plane) -> None:
    """Two for each length, one more for the time-out."""
    many = [service(f"s{length}", length, length, affinity=60) for length in range(1, 201)]
    await plane.sync(*many, full=True)
    used = len(plane.table.chains)
    seen = []
    for count in range(201, 256):
        await plane.sync(*many, service("b", 250, count, affinity=60))
        seen.append(len(plane.table.chains) - used)
    assert max(seen) == 2 + 100
    assert seen[-1] < 10
