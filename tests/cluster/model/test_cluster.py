from collections.abc import Mapping

import pytest

from kubeproxy.base.inet import Family, Prefix
from kubeproxy.cluster.model.cluster import Cluster, Problem, Touched
from kubeproxy.cluster.model.node import derive_node, primary_ips
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import Node
from world import CART, cluster_of, endpoint_slice, kestrel, service


def upsert(cluster: Cluster, kind: Kind, document: Mapping[str, object]) -> Touched:
    return cluster.upsert(kind, convert(kind, document))


SLICE_KEY = ObjectKey("shop", "cart-1")
IPV4 = (Family.IPV4, CART)


def test_an_event_touches_its_service_only() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"))
    touched = upsert(cluster, Kind.ENDPOINT_SLICE, endpoint_slice("L1 R1"))
    assert touched.services == (IPV4,)
    assert touched


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        pytest.param(Kind.SERVICE, service(), id="service"),
        pytest.param(Kind.ENDPOINT_SLICE, endpoint_slice("L1"), id="slice"),
        pytest.param(Kind.NODE, kestrel(), id="node"),
    ],
)
def test_the_same_object_again_touches_nothing(kind: Kind, document: Mapping[str, object]) -> None:
    assert not upsert(cluster_of(service(), endpoint_slice("L1")), kind, document)


def test_labels_and_annotations_touch_nothing() -> None:
    cluster = cluster_of(service())
    noisy = service()
    noisy["metadata"] = {"namespace": "shop", "name": "cart", "labels": {"a": "b"}}
    assert not upsert(cluster, Kind.SERVICE, noisy)


@pytest.mark.parametrize("kind", Kind)
def test_deleting_an_unknown_object_touches_nothing(kind: Kind) -> None:
    assert not Cluster("kestrel").delete(kind, ObjectKey("shop", "ghost"))


def test_a_slice_that_changes_its_service_leaves_the_old_one() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"))
    moved = endpoint_slice("L1")
    moved["metadata"] = {
        "namespace": "shop",
        "name": "cart-1",
        "labels": {"kubernetes.io/service-name": "basket"},
    }
    touched = upsert(cluster, Kind.ENDPOINT_SLICE, moved)
    assert set(touched.services) == {IPV4, (Family.IPV4, ObjectKey("shop", "basket"))}
    assert cluster.slices(Family.IPV4, CART) == {}


def test_a_slice_that_loses_its_label_is_gone() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"))
    nameless = endpoint_slice("L1")
    nameless["metadata"] = {"namespace": "shop", "name": "cart-1"}
    assert upsert(cluster, Kind.ENDPOINT_SLICE, nameless).services == (IPV4,)
    assert not cluster.delete(Kind.ENDPOINT_SLICE, SLICE_KEY)


def test_what_is_not_listed_again_is_gone_only_when_the_list_is_complete() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"), endpoint_slice("R1", name="cart-2"))
    cluster.reset(Kind.ENDPOINT_SLICE)
    upsert(cluster, Kind.ENDPOINT_SLICE, endpoint_slice("L1"))
    assert set(cluster.slices(Family.IPV4, CART)) == {"cart-1", "cart-2"}
    assert not cluster.synced(Kind.ENDPOINT_SLICE)
    assert cluster.complete(Kind.ENDPOINT_SLICE).services == (IPV4,)
    assert set(cluster.slices(Family.IPV4, CART)) == {"cart-1"}
    assert cluster.synced(Kind.ENDPOINT_SLICE)


def test_what_was_deleted_during_a_list_is_gone_once() -> None:
    cluster = cluster_of(service())
    cluster.reset(Kind.SERVICE)
    assert cluster.delete(Kind.SERVICE, CART).services == (IPV4,)
    assert not cluster.complete(Kind.SERVICE)


def test_what_a_list_keeps_stays() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"))
    cluster.keep(Kind.SERVICE, CART)
    cluster.reset(Kind.SERVICE)
    cluster.keep(Kind.SERVICE, CART)
    assert not cluster.complete(Kind.SERVICE)
    assert list(cluster.services(Family.IPV4)) == [CART]


def test_two_service_cidrs_that_name_one_range_count_once() -> None:
    cluster = Cluster("kestrel")
    for name in ("a", "b"):
        document = {"metadata": {"name": name}, "spec": {"cidrs": ["10.112.0.0/16", "fd12::/108"]}}
        assert upsert(cluster, Kind.SERVICE_CIDR, document).service_cidrs
    assert cluster.delete(Kind.SERVICE_CIDR, ObjectKey("", "a")).service_cidrs
    assert cluster.service_cidrs(Family.IPV4) == (Prefix("10.112.0.0", 16),)
    assert cluster.service_cidrs(Family.IPV6) == (Prefix("fd12::", 108),)


def test_problems_name_their_object() -> None:
    cluster = Cluster("kestrel")
    slice_ = endpoint_slice(
        spec={
            "ports": [{"name": "http", "port": 80, "protocol": "ICMP"}],
            "endpoints": [{"addresses": ["fd00::1"]}],
        }
    )
    cidr = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["x"]}}
    upsert(cluster, Kind.SERVICE, service({"clusterIP": "x"}))
    upsert(cluster, Kind.ENDPOINT_SLICE, slice_)
    upsert(cluster, Kind.SERVICE_CIDR, cidr)
    expected = [
        Problem(Kind.SERVICE, CART, "the cluster IP 'x' is not an IP address"),
        Problem(Kind.ENDPOINT_SLICE, SLICE_KEY, "ports[0] 'ICMP/80' cannot be proxied"),
        Problem(Kind.ENDPOINT_SLICE, SLICE_KEY, "endpoints[0]: 'fd00::1' is not IPv4"),
        Problem(Kind.SERVICE_CIDR, ObjectKey("", "kubernetes"), "spec.cidrs: 'x' is not a CIDR"),
    ]
    assert expected == [each for problems in cluster.problems.values() for each in problems]


def test_only_our_own_node_matters() -> None:
    cluster = cluster_of()
    assert cluster.zone == "z-east"
    assert not upsert(cluster, Kind.NODE, {"metadata": {"name": "heron"}})
    assert cluster.delete(Kind.NODE, ObjectKey("", "kestrel")).node
    assert cluster.zone == ""


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        pytest.param([], (), id="none"),
        pytest.param(
            [("ExternalIP", "203.0.113.1"), ("InternalIP", "10.0.0.1")],
            ("10.0.0.1",),
            id="internal-before-external",
        ),
        pytest.param(
            [("InternalIP", "fd00::1"), ("InternalIP", "10.0.0.1"), ("InternalIP", "10.0.0.2")],
            ("fd00::1", "10.0.0.1"),
            id="the-first-and-the-first-of-the-other-family",
        ),
        pytest.param(
            [("Hostname", "kestrel"), ("InternalIP", "x"), ("InternalIP", "10.0.0.1")],
            ("10.0.0.1",),
            id="names-and-nonsense-are-skipped",
        ),
    ],
)
def test_node_ips(addresses: list[tuple[str, str]], expected: tuple[str, ...]) -> None:
    status = {"addresses": [{"type": kind, "address": ip} for kind, ip in addresses]}
    node = convert(Kind.NODE, {"metadata": {"name": "kestrel"}, "status": status})
    assert isinstance(node, Node)
    assert expected == primary_ips(derive_node(node))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"metadata": {"name": "a"}}, True, id="plain"),
        pytest.param(
            {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            False,
            id="being-deleted",
        ),
        pytest.param(
            {
                "metadata": {"name": "a"},
                "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]},
            },
            False,
            id="tainted-by-the-autoscaler",
        ),
        pytest.param(
            {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "x"}]}}, True, id="other-taint"
        ),
    ],
)
def test_node_eligibility(document: Mapping[str, object], expected: bool) -> None:
    node = convert(Kind.NODE, document)
    assert isinstance(node, Node)
    assert expected == derive_node(node).eligible
