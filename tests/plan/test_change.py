"""A change that is written down, on a cluster: what is filled in, deleted, refused."""

from collections.abc import Mapping

import pytest

from kubeproxy.base.errors import FieldError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.manifests.objects import ManifestObject
from kubeproxy.cluster.model.cluster import Cluster
from kubeproxy.cluster.model.serviceport import ServicePort
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.plan.change import carry_out, to_delete
from world import CART, CLUSTER_IP, NODE_PORT, VIP, cluster_of, endpoint_slice, everywhere, service

V4, V6 = Family
CIDRS = {"metadata": {"name": "all"}, "spec": {"cidrs": ["10.112.0.0/30", "fd12::/108"]}}


def put(
    cluster: Cluster, *documents: Mapping[str, object], kind: Kind = Kind.SERVICE
) -> list[str]:
    placed = [ManifestObject(kind, convert(kind, each), "change.yaml", 1) for each in documents]
    return list(carry_out(cluster, (), placed))


def written(spec: Mapping[str, object], name: str = "cart") -> dict[str, object]:
    """A Service as people write it."""
    ports = [{"name": "http", "port": 80}]
    return {"metadata": {"namespace": "shop", "name": name}, "spec": {"ports": ports, **spec}}


def port(cluster: Cluster, name: str = "cart", family: Family = V4) -> ServicePort:
    return cluster.service_ports(family, ObjectKey("shop", name))[0]


def test_what_the_api_server_gave_a_service_stays() -> None:
    near = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 32100}
    cluster = cluster_of(everywhere(near))
    before = port(cluster)
    change = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "sessionAffinity": "ClientIP",
    }
    assert put(cluster, written(change)) == []
    after = port(cluster)
    assert (after.cluster_ip, after.node_port) == (CLUSTER_IP, NODE_PORT)
    assert (after.load_balancer_ips, after.health_check_port) == ((VIP,), 32100)
    assert after.created == before.created
    assert after.affinity_seconds == 10800


def test_what_is_written_counts() -> None:
    cluster = cluster_of(everywhere())
    change = written({"type": "LoadBalancer", "clusterIP": "10.112.0.50"})
    change["spec"]["ports"][0]["nodePort"] = 31999  # type: ignore[index]  # a dict
    change["status"] = {"loadBalancer": {"ingress": [{"ip": "203.0.113.99"}]}}
    assert put(cluster, change) == []
    after = port(cluster)
    assert (after.cluster_ip, after.node_port) == ("10.112.0.50", 31999)
    assert after.load_balancer_ips == ("203.0.113.99",)


def test_a_service_that_becomes_internal_has_no_node_ports() -> None:
    cluster = cluster_of(everywhere())
    put(cluster, written({"type": "ClusterIP"}))
    assert (port(cluster).node_port, port(cluster).load_balancer_ips) == (0, ())


def test_both_families_keep_their_addresses() -> None:
    both = {"clusterIPs": [CLUSTER_IP, "fd12::21"], "ipFamilies": ["IPv4", "IPv6"]}
    cluster = cluster_of(service(both))
    put(cluster, written({"sessionAffinity": "ClientIP"}))
    assert [port(cluster, family=each).cluster_ip for each in Family] == [CLUSTER_IP, "fd12::21"]
    put(cluster, written({"ipFamilies": ["IPv6"]}))
    assert cluster.service_ports(V4, CART) == ()
    assert port(cluster, family=V6).cluster_ip == "fd12::21"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {V4: "10.112.0.2"}),
        ({"ipFamilies": ["IPv6"]}, {V6: "fd12::f:fffe"}),
        ({"ipFamilies": ["IPv4", "IPv6"]}, {V4: "10.112.0.2", V6: "fd12::f:fffe"}),
    ],
)
def test_a_new_service_gets_a_free_address(
    spec: Mapping[str, object], expected: Mapping[Family, str]
) -> None:
    cluster = cluster_of()
    put(cluster, CIDRS, kind=Kind.SERVICE_CIDR)
    (remark,) = put(cluster, written(spec))
    given = " and ".join(expected.values())
    assert remark.endswith(f"cluster IP: {given} stands for it here")
    found = {each: cluster.service_ports(each, CART) for each in Family}
    assert {each: ports[0].cluster_ip for each, ports in found.items() if ports} == expected
    assert next(ports[0] for ports in found.values() if ports).created.startswith("9999")


def test_without_a_range_or_room_in_it_a_new_service_has_no_address() -> None:
    (remark,) = put(cluster_of(), written({}))
    assert remark == "Service shop/cart: spec.clusterIP is missing: the Service is not proxied"
    full = cluster_of(
        service({"clusterIP": "10.112.0.2"}), service({"clusterIP": "10.112.0.1"}, name="b")
    )
    cidrs = {"metadata": {"name": "all"}, "spec": {"cidrs": ["10.112.0.0/30"]}}
    put(full, cidrs, kind=Kind.SERVICE_CIDR)
    assert "10.112.0.0" not in " ".join(put(full, written({}, "new")))


def test_a_new_node_port_is_not_in_the_plan() -> None:
    cluster = cluster_of(service())
    (remark,) = put(cluster, written({"type": "NodePort"}))
    assert remark == (
        "Service shop/cart: the API server will give port 80 a node port,"
        " which is not in this plan"
    )


def test_what_would_not_be_sent_to_the_proxy_is_gone() -> None:
    for spec in ({"clusterIP": "None"}, {"type": "ExternalName"}):
        cluster = cluster_of(service())
        put(cluster, written(spec))
        assert cluster.service_ports(V4, CART) == ()
    cluster = cluster_of(service())
    put(cluster, {"metadata": {"namespace": "shop", "name": "cart"}})
    assert cluster.service_ports(V4, CART) == ()


def test_other_nodes_do_not_matter() -> None:
    cluster = cluster_of()
    put(cluster, {"metadata": {"name": "heron"}}, kind=Kind.NODE)
    assert not cluster.knows(Kind.NODE, ObjectKey("", "heron"))
    put(cluster, {"metadata": {"name": "kestrel"}}, kind=Kind.NODE)
    assert cluster.node is not None
    assert cluster.node.ips == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("service/shop/cart", (Kind.SERVICE, CART)),
        ("svc/cart", (Kind.SERVICE, ObjectKey("default", "cart"))),
        ("EndpointSlice/shop/cart-1", (Kind.ENDPOINT_SLICE, ObjectKey("shop", "cart-1"))),
        ("servicecidr/all", (Kind.SERVICE_CIDR, ObjectKey("", "all"))),
    ],
)
def test_objects_to_delete(text: str, expected: tuple[Kind, ObjectKey]) -> None:
    assert to_delete(text) == expected


@pytest.mark.parametrize(
    "text", ["cart", "pod/shop/a", "service/", "service/a/b/c", "servicecidr/a/b", "service//a"]
)
def test_what_names_no_object(text: str) -> None:
    with pytest.raises(FieldError, match="must be such as service/NAMESPACE/NAME"):
        to_delete(text)


def test_what_is_deleted_must_be_there() -> None:
    cluster = cluster_of(service(), endpoint_slice("L1"))
    slice_ = (Kind.ENDPOINT_SLICE, ObjectKey("shop", "cart-1"))
    assert list(carry_out(cluster, [(Kind.SERVICE, CART), slice_], ())) == []
    assert cluster.service_ports(V4, CART) == ()
    assert not cluster.knows(*slice_)
    with pytest.raises(FieldError, match="there is no such object"):
        list(carry_out(cluster, [(Kind.SERVICE, CART)], ()))
