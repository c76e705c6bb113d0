import pytest

from fakes.dataplane import FakeDataplane
from kubeproxy.base.inet import Family
from kubeproxy.cluster.events import Delete, Keep, Reset, Synced, Upsert
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.engine.handler import EventHandler
from kubeproxy.engine.own_node import RestartNeeded
from kubeproxy.engine.schedule import Schedule
from kubeproxy.engine.sync import FamilySync, SyncTarget
from world import CART, NODE_NAME, Mode, endpoint_slice, kestrel, node, service


def upsert(kind: Kind, document: dict[str, object]) -> Upsert:
    return Upsert(kind, convert(kind, document))


class Rig:
    def __init__(self) -> None:
        self.cluster = Cluster(NODE_NAME)
        self.node_changes = 0
        self.ends: RestartNeeded | None = None
        self.syncs = {family: self._sync(family) for family in Family}
        self.handler = EventHandler(self.cluster, tuple(self.syncs.values()), self._node_changed)

    def _sync(self, family: Family) -> FamilySync:
        return FamilySync(
            self.cluster,
            family,
            SyncTarget(FakeDataplane()),
            Schedule(0, 30, 3600),
            lambda: node(Mode.NFTABLES, family),
        )

    def _node_changed(self) -> None:
        self.node_changes += 1
        if self.ends:
            raise self.ends

    @property
    def wanted(self) -> list[Family]:
        """Which families have requested a sync; reading resets it."""
        found = [family for family, sync in self.syncs.items() if sync.progress.requested]
        for sync in self.syncs.values():
            sync.progress = type(sync.progress)()
        return found


def test_syncs_open_when_services_and_slices_and_the_node_are_known() -> None:
    rig = Rig()
    rig.handler.deliver(Reset(Kind.SERVICE))
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    rig.handler.deliver(Synced(Kind.SERVICE))
    assert not rig.syncs[Family.IPV4]._is_open
    rig.handler.deliver(Synced(Kind.ENDPOINT_SLICE))
    assert not rig.syncs[Family.IPV4]._is_open
    rig.handler.ready()
    assert all(sync._is_open for sync in rig.syncs.values())


def test_an_event_wakes_only_the_family_that_it_concerns() -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    assert rig.wanted == [Family.IPV4]
    rig.handler.deliver(upsert(Kind.ENDPOINT_SLICE, endpoint_slice("L1", {"addressType": "IPv6"})))
    assert rig.wanted == [Family.IPV6]
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    assert rig.wanted == []
    rig.handler.deliver(Delete(Kind.SERVICE, CART))
    assert rig.wanted == [Family.IPV4]


def test_an_object_that_cannot_be_decoded_survives_a_relist() -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    rig.handler.deliver(upsert(Kind.SERVICE, service(name="gone")))
    rig.handler.deliver(Reset(Kind.SERVICE))
    rig.handler.deliver(Keep(Kind.SERVICE, CART))
    rig.handler.deliver(Synced(Kind.SERVICE))
    assert list(rig.cluster.services(Family.IPV4)) == [CART]


def test_service_ranges_and_the_node_concern_both_families_at_once() -> None:
    rig = Rig()
    cidr: dict[str, object] = {"metadata": {"name": "k"}, "spec": {"cidrs": ["10.112.0.0/16"]}}
    rig.handler.deliver(upsert(Kind.SERVICE_CIDR, cidr))
    assert rig.wanted == list(Family)
    rig.handler.deliver(upsert(Kind.NODE, kestrel()))
    assert rig.wanted == list(Family)
    assert rig.node_changes == 1
    rig.handler.deliver(Synced(Kind.NODE))
    assert rig.node_changes == 2


def test_a_node_that_ends_the_run_changes_no_rule_on_the_way_out() -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.NODE, kestrel()))
    assert rig.wanted == list(Family)
    rig.ends = RestartNeeded("it is being deleted")
    with pytest.raises(RestartNeeded):
        rig.handler.deliver(Delete(Kind.NODE, ObjectKey("", NODE_NAME)))
    assert rig.wanted == []


def test_an_invalid_part_is_logged_once_until_it_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.SERVICE, service({"clusterIP": "x"})))
    rig.handler.deliver(upsert(Kind.SERVICE, service({"clusterIP": "x"})))
    logged = capsys.readouterr().err
    assert logged.count("the cluster IP 'x' is not an IP address") == 1
    assert 'object="shop/cart"' in logged
    [[problem]] = rig.cluster.problems.values()
    assert (problem.kind, problem.key) == (Kind.SERVICE, CART)
    assert problem.text in logged
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    rig.handler.deliver(upsert(Kind.SERVICE, service({"clusterIP": "x"})))
    assert "not an IP address" in capsys.readouterr().err
    rig.handler.deliver(Delete(Kind.SERVICE, ObjectKey("shop", "cart")))
    assert rig.cluster.problems == {}


def test_many_invalid_parts_do_not_flood_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rig = Rig()
    nonsense = [f"x{number}" for number in range(1000)]
    rig.handler.deliver(upsert(Kind.SERVICE, service({"externalIPs": nonsense})))
    logged = capsys.readouterr().err
    assert logged.count("Part of an object is ignored") == 10
    assert "count=990" in logged


def test_an_unexpected_error_with_an_object_stops_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.SERVICE, service()))
    known = rig.cluster.service_ports(Family.IPV4, CART)

    def unexpected(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    with monkeypatch.context() as patched:
        patched.setattr("kubeproxy.cluster.model.cluster.derive_service_ports", unexpected)
        rig.handler.deliver(upsert(Kind.SERVICE, service({"clusterIP": "10.112.0.99"})))
    logged = capsys.readouterr().err
    assert "its last valid version stays in use: ZeroDivisionError" in logged
    assert 'object="shop/cart"' in logged
    assert rig.cluster.service_ports(Family.IPV4, CART) == known


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        pytest.param([], [], id="it-is-gone"),
        pytest.param([Keep(Kind.SERVICE, CART)], [CART], id="it-cannot-be-decoded-now"),
        pytest.param(
            [upsert(Kind.SERVICE, service({"clusterIP": "x"}))], [CART], id="it-is-still-invalid"
        ),
    ],
)
def test_a_relist_drops_the_problems_of_objects_that_are_gone(
    listed: list[Keep | Upsert], expected: list[ObjectKey]
) -> None:
    rig = Rig()
    rig.handler.deliver(upsert(Kind.SERVICE, service({"clusterIP": "x"})))
    for event in [Reset(Kind.SERVICE), *listed, Synced(Kind.SERVICE)]:
        rig.handler.deliver(event)
    assert expected == [key for _, key in rig.cluster.problems]
