"""What must hold for every sequence of events, in any order, split over any syncs."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family
from kubeproxy.base.steps import Steps, finish
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import KubeObject
from kubeproxy.table.build import Builder
from kubeproxy.table.diff import Changes, diff, patch
from kubeproxy.table.entries import Table
from kubeproxy.table.recompile import LARGE
from property.clusters import Change, changes
from world import seen_by

State = dict[tuple[Kind, ObjectKey], KubeObject]


class Engine:
    """A cluster and a table that follow events and syncs, as the daemon's do."""

    def __init__(self, family: Family, large: int = LARGE) -> None:
        self.cluster = Cluster("kestrel")
        self.builder = Builder(family, large)
        self.touched: set[ObjectKey] = set()

    def apply(self, change: Change) -> None:
        kind, key, obj = change
        cluster = self.cluster
        touched = cluster.delete(kind, key) if obj is None else cluster.upsert(kind, obj)
        self._touch(touched.services)

    def relist(self, state: State, kind: Kind) -> None:
        self.cluster.reset(kind)
        for (each, _), obj in state.items():
            if each is kind:
                self._touch(self.cluster.upsert(kind, obj).services)
        self._touch(self.cluster.complete(kind).services)

    def sync(self) -> Changes:
        return finish(self.sync_in_steps())

    def sync_in_steps(self) -> Steps[Changes]:
        touched, self.touched = self.touched, set()
        return self.builder.update_in_steps(self.cluster, touched, seen_by(self.cluster))

    def _touch(self, services: Sequence[tuple[Family, ObjectKey]]) -> None:
        family = self.builder.table.family
        self.touched.update(service for each, service in services if each is family)


def final_state(events: Sequence[Change]) -> State:
    state: State = {}
    for kind, key, obj in events:
        if obj is None:
            state.pop((kind, key), None)
        else:
            state[kind, key] = obj
    return state


def from_scratch(state: State, family: Family) -> Engine:
    engine = Engine(family)
    for (kind, key), obj in state.items():
        engine.apply((kind, key, obj))
    engine.sync()
    return engine


families = st.sampled_from(Family)
histories = st.lists(st.tuples(changes(), st.booleans()), min_size=3, max_size=15)


@given(histories, families, st.sampled_from([1, LARGE]))
def test_incremental_equals_from_scratch(
    history: list[tuple[Change, bool]], family: Family, large: int
) -> None:
    engine = Engine(family, large)
    for change, sync_now in history:
        engine.apply(change)
        if sync_now:
            engine.sync()
    engine.sync()
    expected = from_scratch(final_state([change for change, _ in history]), family)
    assert expected.builder.table == engine.builder.table
    assert expected.builder.conflicts() == engine.builder.conflicts()


@given(histories, families, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(
    history: list[tuple[Change, bool]], family: Family, random: Random
) -> None:
    state = final_state([change for change, _ in history])
    shuffled = list(state.items())
    random.shuffle(shuffled)
    engine = Engine(family)
    for (kind, key), obj in shuffled:
        engine.apply((kind, key, obj))
        engine.apply((kind, key, obj))
        if random.random() < 0.5:
            engine.sync()
    engine.sync()
    assert from_scratch(state, family).builder.table == engine.builder.table


@given(histories, histories, families)
def test_a_relist_replaces_what_was_known(
    before: list[tuple[Change, bool]], after: list[tuple[Change, bool]], family: Family
) -> None:
    engine = from_scratch(final_state([change for change, _ in before]), family)
    state = final_state([change for change, _ in after])
    for kind in Kind:
        engine.relist(state, kind)
    engine.sync()
    assert from_scratch(state, family).builder.table == engine.builder.table


@given(histories, histories, families)
def test_applying_the_difference_of_two_tables_to_one_gives_the_other(
    first: list[tuple[Change, bool]], second: list[tuple[Change, bool]], family: Family
) -> None:
    a = from_scratch(final_state([change for change, _ in first]), family).builder.table
    b = from_scratch(final_state([change for change, _ in second]), family).builder.table
    patch(a, diff(a, b))
    assert b == a
    assert not diff(a, b)


@given(histories, families)
def test_the_changes_of_syncs_add_up_to_the_table(
    history: list[tuple[Change, bool]], family: Family
) -> None:
    engine = Engine(family)
    copy = Table(family)
    for change, sync_now in history:
        engine.apply(change)
        if sync_now:
            patch(copy, engine.sync())
    patch(copy, engine.sync())
    assert engine.builder.table == copy


@given(histories, families)
def test_a_sync_without_events_changes_nothing(
    history: list[tuple[Change, bool]], family: Family
) -> None:
    engine = from_scratch(final_state([change for change, _ in history]), family)
    assert not engine.sync()
