"""Any history of a cluster, in any syncs, leads where a fresh start leads."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.ipvs.plane import Plane, fresh
from fakes.ipvs import FakeKernel
from kubeproxy.base.inet import Family, Protocol
from property.clusters import Change
from property.test_incremental import Engine, families, histories
from world import NODE_ADDRESSES, Mode, node

# Among them addresses that services have too, with ports that are node ports of others.
ADDRESSES = {
    Family.IPV4: (NODE_ADDRESSES[Family.IPV4], ("198.51.100.10", "198.18.0.5"), ("203.0.113.7",)),
    Family.IPV6: (NODE_ADDRESSES[Family.IPV6], ("2001:db8:aa::10", "2001:db8::5"), ()),
}


class Sync(msgspec.Struct, frozen=True):
    """How a sync comes about: what kind, and which addresses the node has then."""

    full: bool
    addresses: int
    busy: bool


syncs = st.lists(
    st.builds(Sync, st.booleans(), st.integers(0, 2), st.booleans()), min_size=16, max_size=16
)
History = list[tuple[Change, bool]]


class Course:
    """A cluster's history, and a dataplane that follows it."""

    def __init__(self, family: Family) -> None:
        self.engine = Engine(family)
        self.kernel = FakeKernel(family)
        self.plane = Plane(self.kernel, node(Mode.IPVS, family))
        self.plane.table = self.engine.builder.table

    def sync(self, how: Sync) -> None:
        addresses = ADDRESSES[self.plane.node.family][how.addresses]
        self.plane.node = msgspec.structs.replace(self.plane.node, addresses=addresses)
        if how.busy:
            self.kernel.servers.busy.update(
                (key, real) for key, reals in self.kernel.servers.weights.items() for real in reals
            )
        assert self.plane.apply(self.engine.sync(), full=how.full).failed == {}


def run(history: History, family: Family, hows: list[Sync]) -> Course:
    course = Course(family)
    for (change, sync_now), how in zip(history, hows, strict=False):
        course.engine.apply(change)
        if sync_now:
            course.sync(how)
    course.sync(hows[-1])
    return course


@settings(max_examples=40)
@given(histories, families, syncs)
def test_incremental_equals_from_scratch(
    history: History, family: Family, hows: list[Sync]
) -> None:
    idle = [msgspec.structs.replace(how, busy=False) for how in hows]
    course = run(history, family, idle)
    assert course.kernel.servers.refused == []
    assert fresh(course.plane.table, course.plane.node).state() == course.kernel.state()


@settings(max_examples=40)
@given(histories, families, syncs)
def test_real_servers_with_connections_stay_until_these_end(
    history: History, family: Family, hows: list[Sync]
) -> None:
    course = run(history, family, hows)
    servers = course.kernel.servers
    for key, reals in fresh(course.plane.table, course.plane.node).servers.weights.items():
        here = servers.weights[key]
        assert reals == {real: weight for real, weight in here.items() if weight}
        draining = {real for real, weight in here.items() if not weight}
        assert all((key, real) in servers.busy for real in draining)
        assert key.protocol is Protocol.TCP or not draining
    servers.busy.clear()
    course.plane.ipvs._check_drained()
    assert servers.refused == []
    assert fresh(course.plane.table, course.plane.node).state() == course.kernel.state()


@settings(max_examples=40)
@given(histories, families)
def test_a_full_sync_finds_nothing_to_do(history: History, family: Family) -> None:
    course = run(history, family, [Sync(full=True, addresses=0, busy=False)] * 16)
    assert course.plane.apply(full=True).written == 0
    another = Plane(course.kernel, course.plane.node)
    assert another.put(course.plane.table, full=True).written == 0
