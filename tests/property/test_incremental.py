"""What must hold for every sequence of events, in any order, split over any syncs."""

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from kubeproxy.base.inet import Family
from kubeproxy.base.steps import Steps, finish
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import KubeObject
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.table.build import Builder
from kubeproxy.table.compile import Vantage
from kubeproxy.table.diff import Changes, diff, patch
from kubeproxy.table.entries import Table
from property.clusters import Told, tellings

State = dict[tuple[Kind, ObjectKey], KubeObject]


class Follower:
    """A cluster and a table that follow events and syncs, as the daemon's do."""

    def __init__(self, family: Family) -> None:
        self.cluster = Cluster("kestrel")
        self.builder = Builder(family)
        self.touched: set[ObjectKey] = set()

    def tell(self, told: Told) -> None:
        kind, key, obj = told
        cluster = self.cluster
        touched = cluster.delete(kind, key) if obj is None else cluster.upsert(kind, obj)
        self._touch(touched.services)

    def retell(self, state: State, kind: Kind) -> None:
        self.cluster.reset(kind)
        for (each, _), obj in state.items():
            if each is kind:
                self._touch(self.cluster.upsert(kind, obj).services)
        self._touch(self.cluster.complete(kind).services)

    def sync(self) -> Changes:
        return finish(self.sync_in_steps())

    def sync_in_steps(self) -> Steps[Changes]:
        touched, self.touched = self.touched, set()
        vantage = Vantage(self.cluster.place, "198.51.100.10")
        return self.builder.update_in_steps(self.cluster, touched, vantage)

    def _touch(self, services: Sequence[tuple[Family, ObjectKey]]) -> None:
        family = self.builder.table.family
        self.touched.update(service for each, service in services if each is family)


def final_state(events: Sequence[Told]) -> State:
    state: State = {}
    for kind, key, obj in events:
        if obj is None:
            state.pop((kind, key), None)
        else:
            state[kind, key] = obj
    return state


def from_scratch(state: State, family: Family) -> Follower:
    follower = Follower(family)
    for (kind, key), obj in state.items():
        follower.tell((kind, key, obj))
    follower.sync()
    return follower


families = st.sampled_from(Family)
histories = st.lists(st.tuples(tellings(), st.booleans()), min_size=3, max_size=15)


@given(histories, families)
def test_incremental_equals_from_scratch(history: list[tuple[Told, bool]], family: Family) -> None:
    follower = Follower(family)
    for told, sync_now in history:
        follower.tell(told)
        if sync_now:
            follower.sync()
    follower.sync()
    expected = from_scratch(final_state([told for told, _ in history]), family)
    assert expected.builder.table == follower.builder.table
    assert expected.builder.conflicts() == follower.builder.conflicts()


@given(histories, families, st.randoms(use_true_random=False))
def test_the_order_of_objects_does_not_matter(
    history: list[tuple[Told, bool]], family: Family, random: Random
) -> None:
    state = final_state([told for told, _ in history])
    shuffled = list(state.items())
    random.shuffle(shuffled)
    follower = Follower(family)
    for (kind, key), obj in shuffled:
        follower.tell((kind, key, obj))
        follower.tell((kind, key, obj))
        if random.random() < 0.5:
            follower.sync()
    follower.sync()
    assert from_scratch(state, family).builder.table == follower.builder.table


@given(histories, histories, families)
def test_a_new_telling_replaces_what_was_told(
    before: list[tuple[Told, bool]], after: list[tuple[Told, bool]], family: Family
) -> None:
    follower = from_scratch(final_state([told for told, _ in before]), family)
    state = final_state([told for told, _ in after])
    for kind in Kind:
        follower.retell(state, kind)
    follower.sync()
    assert from_scratch(state, family).builder.table == follower.builder.table


@given(histories, histories, families)
def test_applying_the_difference_of_two_tables_to_one_gives_the_other(
    first: list[tuple[Told, bool]], second: list[tuple[Told, bool]], family: Family
) -> None:
    a = from_scratch(final_state([told for told, _ in first]), family).builder.table
    b = from_scratch(final_state([told for told, _ in second]), family).builder.table
    patch(a, diff(a, b))
    assert b == a
    assert not diff(a, b)


@given(histories, families)
def test_the_changes_of_syncs_add_up_to_the_table(
    history: list[tuple[Told, bool]], family: Family
) -> None:
    follower = Follower(family)
    copy = Table(family)
    for told, sync_now in history:
        follower.tell(told)
        if sync_now:
            patch(copy, follower.sync())
    patch(copy, follower.sync())
    assert follower.builder.table == copy


@given(histories, families)
def test_a_sync_without_events_changes_nothing(
    history: list[tuple[Told, bool]], family: Family
) -> None:
    follower = from_scratch(final_state([told for told, _ in history]), family)
    assert not follower.sync()
