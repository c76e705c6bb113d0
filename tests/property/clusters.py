"""Small clusters in which everything that can collide does: few names, few addresses."""

from collections.abc import Mapping

from hypothesis import strategies as st

from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.cluster.objects.decode import convert
from kubeproxy.cluster.objects.meta import Kind, ObjectKey
from kubeproxy.cluster.objects.types import KubeObject

SERVICES = ("a", "b", "c")
SLICES = ("a-1", "a-2", "b-1", "x")
ADDRESSES = {
    "IPv4": ("10.64.3.11", "10.64.3.12", "10.65.7.21", "10.66.9.31"),
    "IPv6": ("fd40::11", "fd40::12", "fd41::21", "fd42::31"),
}
CLUSTER_IPS = {"IPv4": ("10.112.0.1", "10.112.0.2"), "IPv6": ("fd12::1", "fd12::2")}
CREATED = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")
EXTERNAL_IPS = ("198.18.0.5", "198.18.0.6", "2001:db8::5", "10.112.0.1", "nonsense", "")
NODES = ("kestrel", "heron", None)
ANNOTATIONS = tuple({HEALING_ANNOTATION: each} for each in ("all", "resetGone", "none", "x"))
ZONES = ("z-east", "z-west")

maybe_bool = st.sampled_from((True, False, None))
port_names = st.sampled_from(("", "http", "dns"))
protocols = st.sampled_from(("TCP", "UDP", "SCTP", None))


@st.composite
def services(draw: st.DrawFn, name: str) -> Mapping[str, object]:
    families = draw(st.sampled_from((["IPv4"], ["IPv6"], ["IPv4", "IPv6"], None)))
    cluster_ips = [draw(st.sampled_from(CLUSTER_IPS[family])) for family in families or ["IPv4"]]
    headless = draw(st.integers(0, 9)) == 0
    ports = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "name": port_names,
                    "protocol": protocols,
                    "port": st.sampled_from((80, 53)),
                    "nodePort": st.sampled_from((0, 31080, 31081)),
                }
            ),
            min_size=1,
            max_size=3,
        )
    )
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "creationTimestamp": draw(st.sampled_from((None, *CREATED))),
            "annotations": draw(st.sampled_from((None, *ANNOTATIONS))),
        },
        "spec": {
            "selector": draw(st.sampled_from((None, {"app": "a"}))),
            "type": draw(
                st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer") * 3 + ("ExternalName",))
            ),
            "clusterIP": "None" if headless else cluster_ips[0],
            "clusterIPs": cluster_ips,
            "ipFamilies": families,
            "ports": ports,
            "externalIPs": draw(st.lists(st.sampled_from(EXTERNAL_IPS), max_size=2)),
            "internalTrafficPolicy": draw(st.sampled_from(("Local", "Cluster", None))),
            "externalTrafficPolicy": draw(st.sampled_from(("Local", "Cluster", None))),
            "healthCheckNodePort": draw(st.sampled_from((0, 32100))),
            "sessionAffinity": draw(st.sampled_from(("ClientIP", "None"))),
            "loadBalancerSourceRanges": draw(
                st.sampled_from((None, [" 192.0.2.0/25"], ["::/0"], ["198.51.100.0/24"], ["x"]))
            ),
        },
        "status": {
            "loadBalancer": {
                "ingress": draw(
                    st.lists(
                        st.sampled_from(
                            (
                                {"ip": "203.0.113.7"},
                                {"ip": "203.0.113.8", "ipMode": "Proxy"},
                                {"ip": "2001:db8::7", "ipMode": "VIP"},
                                {"hostname": "lb"},
                            )
                        ),
                        max_size=2,
                    )
                )
            }
        },
    }


@st.composite
def slices(draw: st.DrawFn, name: str) -> Mapping[str, object]:
    address_type = draw(st.sampled_from(("IPv4", "IPv6", "IPv4", "FQDN")))
    hints = st.lists(st.sampled_from(ZONES).map(lambda zone: {"name": zone}), max_size=2)
    endpoints = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "addresses": st.sampled_from(ADDRESSES.get(address_type, ("a.example",))).map(
                        lambda address: [address]
                    ),
                    "conditions": st.fixed_dictionaries(
                        {"ready": maybe_bool, "serving": maybe_bool, "terminating": maybe_bool}
                    ),
                    "nodeName": st.sampled_from(NODES),
                    "targetRef": st.sampled_from((None, {"kind": "Pod"}, {"kind": "Node"})),
                    "hints": st.none() | st.fixed_dictionaries({"forZones": hints}),
                }
            ),
            max_size=4,
        )
    )
    ports = draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "name": port_names | st.none(),
                    "protocol": protocols,
                    "port": st.sampled_from((8080, 53, None)),
                }
            ),
            max_size=2,
        )
        | st.none()
    )
    owner = draw(st.sampled_from((*SERVICES, None)))
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": {"kubernetes.io/service-name": owner} if owner else None,
        },
        "addressType": address_type,
        "ports": ports,
        "endpoints": endpoints,
    }


nodes = st.sampled_from(ZONES).map(
    lambda zone: {
        "metadata": {"name": "kestrel", "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.10"}]},
    }
)
service_cidrs = st.lists(st.sampled_from(("10.112.0.0/16", "fd12::/108", "x")), max_size=2).map(
    lambda cidrs: {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}}
)

Change = tuple[Kind, ObjectKey, KubeObject | None]


def _changes(
    kind: Kind, key: ObjectKey, documents: st.SearchStrategy[Mapping[str, object]]
) -> st.SearchStrategy[Change]:
    present = documents.map(lambda document: (kind, key, convert(kind, document)))
    return st.one_of(present, present, present, st.just((kind, key, None)))


def changes() -> st.SearchStrategy[Change]:
    """An object as it is now; None when it is gone."""
    each = [
        *(_changes(Kind.SERVICE, ObjectKey("shop", name), services(name)) for name in SERVICES),
        *(_changes(Kind.ENDPOINT_SLICE, ObjectKey("shop", name), slices(name)) for name in SLICES),
        _changes(Kind.NODE, ObjectKey("", "kestrel"), nodes),
        _changes(Kind.SERVICE_CIDR, ObjectKey("", "kubernetes"), service_cidrs),
    ]
    return st.one_of(each)
