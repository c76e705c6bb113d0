"""What must hold when events come, and people look, between the steps of a sync."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family
from kubeproxy.base.steps import Steps, finish
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import Changes, patch
from kubeproxy.table.entries import Table
from property.clusters import Change, changes
from property.test_incremental import Engine, final_state, from_scratch

MODULES = (
    *("cluster.model.merge", "table.build", "table.claims", "table.compile"),
    *("table.diff", "table.entries", "table.limits"),
)


@pytest.fixture(scope="module", autouse=True)
def _tiny_steps() -> Iterator[None]:
    """A step for every item, so that small clusters have many."""
    with pytest.MonkeyPatch.context() as patched:
        for module in MODULES:
            patched.setattr(f"kubeproxy.{module}.PART", 1)
        yield


def look(builder: Builder) -> None:
    """Read all that people are shown; nothing of it contradicts the table."""
    table = builder.table
    for service in builder.services():
        for entry in builder.entries_of(service):
            assert entry is table.entries[entry.name]
    for entry in table.entries.values():
        for key in map(entry.key, entry.frontends):
            found = table.find(key)
            assert found is None or found.find(key) is not None
    for conflict in builder.conflicts():
        assert conflict.loser != conflict.winner


class Watched:
    """A engine whose syncs stop after every step."""

    def __init__(self, family: Family) -> None:
        self.engine = Engine(family)
        self.copy = Table(family)
        self._steps: Steps[Changes] | None = None

    def begin(self) -> None:
        if self._steps is None:
            self._steps = self.engine.sync_in_steps()

    def go_on(self) -> None:
        if self._steps is None:
            return
        try:
            next(self._steps)
        except StopIteration as done:
            self._steps = None
            patch(self.copy, done.value)
        look(self.engine.builder)

    def finish(self) -> None:
        if self._steps is not None:
            patch(self.copy, finish(self._steps))
            self._steps = None


@given(
    st.lists(changes(), min_size=3, max_size=15),
    st.sampled_from(Family),
    st.randoms(use_true_random=False),
)
def test_events_between_the_steps_of_syncs_lead_to_the_same_table(
    history: list[Change], family: Family, random: Random
) -> None:
    watched = Watched(family)
    for change in history:
        if random.random() < 0.5:
            watched.begin()
        for _ in range(random.randrange(8)):
            watched.go_on()
        watched.engine.apply(change)
    watched.finish()
    watched.begin()
    watched.finish()
    expected, found = from_scratch(final_state(history), family), watched.engine
    assert expected.builder.table == found.builder.table == watched.copy
    assert expected.builder.conflicts() == found.builder.conflicts()
    assert not found.sync()
