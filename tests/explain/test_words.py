"""What is said about packets: for readers at night, so whole sentences are compared."""

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.dataplane.failures import Endpoint, Reason
from kubeproxy.engine.ejection import Ejection
from kubeproxy.explain.words import (
    Context,
    Explanation,
    NotChosen,
    duration,
    explain,
    left_out,
    render,
)
from kubeproxy.table.decide import decide
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.node import NodeView, PodCIDR, PodInterface
from world import (
    EXTERNAL_IP,
    NODE_NAME,
    NODE_PORT,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    node,
    packet,
    prefix,
    service,
    table_of,
)

NFT, IPT, IPVS = Mode.NFTABLES, Mode.IPTABLES, Mode.IPVS
LOCAL: Document = {"externalTrafficPolicy": "Local"}
STICKY: Document = {"sessionAffinity": "ClientIP"}
RANGES: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25"]}
ODD_NODE_PORT: Document = {"ports": [{"name": "http", "port": 80, "nodePort": 80}]}
BRIDGE = PodInterface("cni0")
VETHS = PodInterface("veth", prefix=True)


def changed(mode: Mode = NFT, **fields: object) -> NodeView:
    return msgspec.structs.replace(node(mode), **fields)


def explained(
    sent: str,
    svc: Document,
    endpoints: str = "L1 R1",
    here: NodeView | None = None,
    mode: Mode = NFT,
) -> Explanation:
    """What is said of a packet to the service with these endpoints."""
    asked, here = packet(sent), here or node(mode)
    verdict = decide(asked, table_of(svc, endpoint_slice(endpoints)), here, mode.quirks)
    return explain(verdict, asked, Context(NODE_NAME, here, mode.value, mode.quirks))


@pytest.mark.parametrize(
    ("sent", "here", "expected"),
    [
        pytest.param(
            "P CIP:80",
            node(NFT),
            "a pod: the address is in the pod range 10.64.0.0/14",
            id="in-the-pod-range",
        ),
        pytest.param(
            "X CIP:80",
            node(NFT),
            "outside: the address is neither this node's nor in the pod range 10.64.0.0/14",
            id="outside-the-pod-range",
        ),
        pytest.param(
            "H CIP:80", node(NFT), "this node itself: the address is one of its own", id="the-node"
        ),
        pytest.param(
            "P CIP:80",
            changed(detector=None),
            "outside, as every pod would be: no pod range is known for IPv4; give explain the "
            "proxy's --config, or --cluster-cidr",
            id="no-pod-range",
        ),
        pytest.param(
            "P,cni0 CIP:80",
            changed(detector=BRIDGE),
            "a pod: it enters the node through cni0, and pods use interface cni0",
            id="through-the-bridge",
        ),
        pytest.param(
            "P,eth0 CIP:80",
            changed(detector=VETHS),
            "outside: it enters the node through eth0, and pods use interfaces veth*",
            id="through-another-interface",
        ),
        pytest.param(
            "P CIP:80",
            changed(detector=BRIDGE),
            "outside: it enters the node through an interface that is not known (--interface), "
            "and pods use interface cni0",
            id="through-an-unknown-interface",
        ),
    ],
)
def test_client(sent: str, here: NodeView, expected: str) -> None:
    assert expected == explained(sent, service(), here=here).client


@pytest.mark.parametrize(
    ("sent", "svc", "endpoints", "expected"),
    [
        pytest.param(
            "P CIP:80",
            service(),
            "L1",
            "forwarded to the only endpoint that can be chosen",
            id="one-endpoint",
        ),
        pytest.param(
            "P CIP:80",
            service(),
            "L1 R1",
            "forwarded to one of 2 endpoints, chosen for each connection",
            id="two-endpoints",
        ),
        pytest.param(
            "P CIP:80",
            service(STICKY),
            "L1 R1",
            "forwarded to one of 2 endpoints, chosen for each client",
            id="two-endpoints-with-affinity",
        ),
        pytest.param(
            "P CIP:80",
            service(),
            "",
            "rejected with ICMP port unreachable: the service has no endpoint that can serve",
            id="no-endpoints",
        ),
        pytest.param(
            "X VIP:80",
            everywhere(LOCAL),
            "R1",
            "dropped without an answer: the traffic policy is Local and no endpoint on this node "
            "can serve, though some elsewhere can",
            id="no-local-endpoints",
        ),
        pytest.param(
            "Y VIP:80",
            everywhere(RANGES),
            "L1",
            "dropped without an answer: the source is in none of spec.loadBalancerSourceRanges",
            id="not-in-the-source-ranges",
        ),
        pytest.param(
            "P CIP:443",
            service(),
            "L1",
            "rejected with ICMP port unreachable: a service has this address, but not this port "
            "and protocol",
            id="no-such-port",
        ),
        pytest.param(
            "P 10.112.0.77:80",
            service(),
            "L1",
            "dropped without an answer: the address is in a service range, but no service has it",
            id="a-cluster-ip-of-no-service",
        ),
        pytest.param(
            "X 198.51.100.77:31080",
            everywhere(),
            "L1",
            "not touched, ordinary routing applies: node ports are not served on this address "
            "(nodePortAddresses)",
            id="not-a-node-port-address",
        ),
        pytest.param(
            "H 127.0.0.1:31080",
            everywhere(),
            "L1",
            "not touched, ordinary routing applies: node ports of the loopback address are not "
            "served",
            id="loopback",
        ),
        pytest.param(
            "P 8.8.8.8:31080",
            everywhere(),
            "L1",
            "not touched, ordinary routing applies: the port is a node port, but the address is "
            "not known as one of this node, and no service has it",
            id="node-port-of-no-service",
        ),
        pytest.param(
            "P 8.8.8.8:53/UDP",
            everywhere(),
            "L1",
            "not touched, ordinary routing applies: no service has this address, protocol and "
            "port",
            id="no-service-at-all",
        ),
    ],
)
def test_summary(sent: str, svc: Document, endpoints: str, expected: str) -> None:
    assert expected == explained(sent, svc, endpoints).summary


SELF = "the client reaches itself, and its reply has to come back through this node"
POD = "the client is a pod, which every endpoint can answer directly"
CLUSTER = (
    "externalTrafficPolicy is Cluster: the endpoint may be on another node, whose reply must come "
    "back through this node"
)


@pytest.mark.parametrize(
    ("sent", "svc", "endpoints", "expected"),
    [
        pytest.param("P CIP:80", service(), "L1 R1", f"kept: {POD}", id="pod-to-cluster-ip"),
        pytest.param(
            "X CIP:80",
            service(),
            "L1 R1",
            "rewritten to an address of this node: the client is not a pod: a reply must come "
            "back through this node",
            id="outside-to-cluster-ip",
        ),
        pytest.param(
            "L1 CIP:80",
            service(),
            "L1",
            f"rewritten to an address of this node: {SELF}",
            id="only-itself",
        ),
        pytest.param(
            "L1 CIP:80",
            service(),
            "L1 R1",
            f"kept: {POD}; but rewritten to an address of this node for 10.64.3.11:8080: {SELF}",
            id="itself-among-others",
        ),
        pytest.param(
            "L1 VIP:80",
            everywhere(),
            "L1 R1",
            f"rewritten to an address of this node: {CLUSTER}",
            id="itself-among-others-that-are-rewritten-anyway",
        ),
        pytest.param(
            "X VIP:80",
            everywhere(LOCAL),
            "L1",
            "kept: externalTrafficPolicy is Local, which keeps the client's address",
            id="local-policy",
        ),
        pytest.param("P CIP:80", service(), "", "", id="rejected"),
    ],
)
def test_source_address(sent: str, svc: Document, endpoints: str, expected: str) -> None:
    assert expected == explained(sent, svc, endpoints).source_address


@pytest.mark.parametrize(
    ("sent", "svc", "here", "expected"),
    [
        pytest.param(
            "127.0.0.1 CIP:80",
            service(),
            node(IPVS),
            "kept: ipvs mode never rewrites a loopback address",
            id="loopback",
        ),
        pytest.param(
            "P CIP:80",
            service(ODD_NODE_PORT),
            node(IPVS),
            "rewritten to an address of this node: the port is also the number of a node port, "
            "and ipvs mode rewrites the source wherever that number is dialled, cluster IPs "
            "included",
            id="the-number-of-a-node-port",
        ),
        pytest.param(
            "CIP CIP:80",
            service(),
            changed(IPVS, detector=None),
            "rewritten to an address of this node: the source is itself a cluster IP: this node "
            "used it to reach the service",
            id="from-a-cluster-ip",
        ),
    ],
)
def test_source_address_where_ipvs_decides_otherwise(
    sent: str, svc: Document, here: NodeView, expected: str
) -> None:
    assert expected == explained(sent, svc, here=here, mode=IPVS).source_address


@pytest.mark.parametrize(
    ("sent", "svc", "endpoints", "expected"),
    [
        pytest.param(
            "P CIP:80",
            service(),
            "L1 R1",
            "go to the client's own address; this node, which they must pass, restores the "
            "address that the client dialled",
            id="source-kept",
        ),
        pytest.param(
            "X CIP:80",
            service(),
            "L1 R1",
            "go to this node, which restores both addresses: the client gets them from the "
            "address that it dialled",
            id="source-rewritten",
        ),
        pytest.param(
            "P CIP:80",
            service(),
            "",
            "none: the client gets an error at once (connection refused)",
            id="rejected",
        ),
        pytest.param(
            "X VIP:80",
            everywhere(LOCAL),
            "R1",
            "none: the client waits until it times out",
            id="dropped",
        ),
        pytest.param("P 8.8.8.8:53", service(), "L1", "not touched either", id="not-touched"),
    ],
)
def test_replies(sent: str, svc: Document, endpoints: str, expected: str) -> None:
    assert expected == explained(sent, svc, endpoints).replies


FAIL = "replies of endpoints on other nodes do not pass this node: connections to them fail"


@pytest.mark.parametrize(
    ("sent", "svc", "here", "expected"),
    [
        pytest.param("P CIP:80", service(), node(NFT), (), id="pod-to-cluster-ip"),
        pytest.param("X VIP:80", everywhere(), node(NFT), (), id="source-is-rewritten"),
        pytest.param("X VIP:80", everywhere(LOCAL), node(NFT), (), id="only-local-endpoints"),
        pytest.param("H VIP:80", everywhere(LOCAL), node(NFT), (), id="the-node-itself"),
        pytest.param(
            "P VIP:80",
            everywhere(LOCAL),
            node(NFT),
            (f"unless the client is on this node, {FAIL}",),
            id="pod-of-an-unknown-node",
        ),
        pytest.param(
            "P,cni0 VIP:80",
            everywhere(LOCAL),
            changed(detector=BRIDGE),
            (),
            id="pod-that-is-surely-on-this-node",
        ),
        pytest.param(
            "P CIP:80",
            service(),
            changed(detector=None),
            (f"unless the client is on this node, {FAIL}",),
            id="no-pod-range",
        ),
    ],
)
def test_notes_on_replies_that_get_lost(
    sent: str, svc: Document, here: NodeView, expected: tuple[str, ...]
) -> None:
    assert expected == explained(sent, svc, here=here).notes


def test_note_on_ipvs_sending_outside_clients_to_other_nodes() -> None:
    assert explained("X VIP:80", everywhere(LOCAL), "R1", mode=IPVS).notes == (FAIL,)


@pytest.mark.parametrize(
    ("sent", "mode", "noted"),
    [
        pytest.param("H VIP:80", IPVS, True, id="the-node"),
        pytest.param("H NP", IPVS, False, id="not-for-its-node-ports"),
        pytest.param("X VIP:80", IPVS, False, id="not-for-others"),
        pytest.param("H VIP:80", NFT, False, id="not-in-other-modes"),
        pytest.param("H 10.112.0.77:80", IPVS, False, id="not-for-addresses-of-no-service"),
    ],
)
def test_note_on_the_source_that_an_ipvs_node_takes(sent: str, mode: Mode, noted: bool) -> None:
    expected = (
        "a program of this node that chooses no source address sends from 203.0.113.7, which in "
        "ipvs mode is the node's own: explain that source for such programs"
    )
    assert noted == (expected in explained(sent, everywhere(), mode=mode).notes)


def test_note_on_a_hairpin_that_hangs() -> None:
    # R1 is the client, but its slice says that it runs on another node.
    said = explained(
        "R1 CIP:80", service(), "R1", changed(detector=PodCIDR(prefix("10.64.0.0/14")))
    )
    expected = (
        "10.65.7.21:8080 is the client itself, but its slice does not say that it is on this "
        "node: the source is not rewritten then, and the connection hangs"
    )
    assert (expected,) == said.notes


def test_notes_of_the_context_come_first() -> None:
    asked = packet("P VIP:80")
    verdict = decide(
        asked, table_of(everywhere(LOCAL), endpoint_slice("R1")), node(NFT), NFT.quirks
    )
    said = explain(
        verdict, asked, Context(NODE_NAME, node(NFT), NFT.value, NFT.quirks, notes=("first",))
    )
    assert ("first", f"unless the client is on this node, {FAIL}") == said.notes


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, "1 s"), (90, "90 s"), (120, "2 min"), (10800, "3 h"), (86400, "1 d")],
)
def test_duration(seconds: int, expected: str) -> None:
    assert expected == duration(seconds)


def test_a_packet_without_protocol_is_an_icmp_packet() -> None:
    said = explained("P CIP:0/ICMP", service())
    assert (said.destination, said.reason) == ("10.112.0.21 (ICMP)", "undefined-port")


def test_an_ipv6_destination_has_brackets() -> None:
    asked = packet("fd40::1 [fd12::1]:80")
    here = node(NFT, Family.IPV6)
    table = table_of(service({"clusterIP": "fd12::1"}), family=Family.IPV6)
    said = explain(
        decide(asked, table, here, NFT.quirks),
        asked,
        Context(NODE_NAME, here, NFT.value, NFT.quirks),
    )
    assert said.destination == "[fd12::1]:80/TCP"
    assert "cluster IP [fd12::1]:80/TCP of Service shop/cart, port http" in render(said)


FORWARDED = """\
10.64.3.11 (pod) -> 10.112.0.21:80/TCP   on node kestrel, nftables mode
  frontend   cluster IP 10.112.0.21:80/TCP of Service shop/cart, port http
  client     a pod: the address is in the pod range 10.64.0.0/14
  verdict    forwarded to one of 3 endpoints, chosen for each client
               10.64.3.11:8080  33.3 %  on this node
               10.65.7.21:8080  33.3 %  on node heron
               10.66.9.31:8080  33.3 %  on a node that its slice does not name
  not chosen 10.64.3.12:8080: it is not ready
             10.64.3.13:8080: it is terminating, and others are ready
  source     kept: the client is a pod, which every endpoint can answer directly; but rewritten \
to an address of this node for 10.64.3.11:8080: the client reaches itself, and its reply has to \
come back through this node
  affinity   a client keeps its endpoint until it made no new connection for 3 h
  replies    go to the client's own address; this node, which they must pass, restores the \
address that the client dialled
  note       one
  note       two"""


def test_everything_there_is_to_say() -> None:
    asked = packet("L1 CIP:80")
    table = table_of(service(STICKY), endpoint_slice("L1 L2:unready L3:draining R1 R2"))
    context = Context(
        NODE_NAME,
        node(NFT),
        NFT.value,
        NFT.quirks,
        places={"10.64.3.11:8080": NODE_NAME, "10.65.7.21:8080": "heron"},
        not_chosen=(
            NotChosen("10.64.3.12:8080", "it is not ready"),
            NotChosen("10.64.3.13:8080", "it is terminating, and others are ready"),
        ),
        notes=("one", "two"),
    )
    assert (
        render(explain(decide(asked, table, node(NFT), NFT.quirks), asked, context)) == FORWARDED
    )


REJECTED = """\
192.0.2.50 (outside) -> 198.51.100.10:31080/TCP   on node kestrel, iptables mode
  frontend   node port 31080/TCP of Service shop/cart
  client     outside: the address is neither this node's nor in the pod range 10.64.0.0/14
  verdict    rejected with ICMP port unreachable: the service has no endpoint that can serve
  replies    none: the client gets an error at once (connection refused)"""


def test_little_to_say_about_a_node_port_without_a_name() -> None:
    svc = everywhere({"ports": [{"port": 80, "nodePort": NODE_PORT}]})
    assert render(explained("X NP", svc, "", mode=IPT)) == REJECTED


PROXIED = """\
127.0.0.1 (host) -> 127.0.0.1:31080/TCP   on node kestrel, nftables mode
  frontend   node port 31080/TCP of Service shop/cart, port http
  client     this node itself: the address is one of its own
  verdict    accepted by kube-proxy itself, which connects to the only endpoint that can be chosen
               10.64.3.11:8080  100 %  on this node
  source     the endpoint sees an address of this node, because the proxy connects to it
  replies    go through the two connections of the proxy"""


def test_the_proxy_for_the_loopback_address() -> None:
    here = changed(localhost_gate=True, node_port_ranges=(prefix("127.0.0.0/8"),))
    said = explained("127.0.0.1 127.0.0.1:31080", everywhere(LOCAL), here=here)
    assert render(said) == PROXIED


def test_what_programs_get() -> None:
    said = explained("P EXT:80", everywhere(), "L1")
    assert {
        "node": "kestrel",
        "mode": "nftables",
        "source": "10.64.3.50",
        "sourceClass": "pod",
        "destination": f"{EXTERNAL_IP}:80/TCP",
        "client": "a pod: the address is in the pod range 10.64.0.0/14",
        "verdict": "forward",
        "summary": "forwarded to the only endpoint that can be chosen",
        "reason": "",
        "matched": {
            "namespace": "shop",
            "service": "cart",
            "portName": "http",
            "frontend": "external IP",
            "address": EXTERNAL_IP,
            "port": 80,
            "protocol": "TCP",
        },
        "endpoints": [
            {
                "endpoint": "10.64.3.11:8080",
                "percent": 100.0,
                "node": "",
                "onThisNode": True,
                "sourceRewritten": True,
                "hairpin": False,
            }
        ],
        "notChosen": [],
        "sourceAddress": f"rewritten to an address of this node: {CLUSTER}",
        "affinity": "",
        "healing": "",
        "replies": "go to this node, which restores both addresses: the client gets them from the "
        "address that it dialled",
        "notes": [],
    } == msgspec.json.decode(msgspec.json.encode(said))


@pytest.mark.parametrize(
    ("reason", "failures", "clients", "times", "expected"),
    [
        pytest.param(
            *(Reason.REFUSED, 1600, 3, 1),
            "left out until 12:00:05 UTC: 1,600 connections of 3 clients were refused; it is tried"
            " again then",
            id="refused",
        ),
        pytest.param(
            *(Reason.UNANSWERED, 1, 1, 3),
            "left out until 12:00:05 UTC, 3 times in a row: 1 connection of 1 client was not"
            " answered; it is tried again then",
            id="again",
        ),
    ],
)
def test_why_an_endpoint_is_left_out(
    reason: Reason, failures: int, clients: int, times: int, expected: str
) -> None:
    name = ServicePortName("shop", "cart", "http", Protocol.TCP)
    noon = 1_700_049_605.0
    out = Ejection(name, Endpoint("10.64.3.11", 8080), noon, reason, failures, clients, times)
    assert expected == left_out(out)


AGAIN = "the client's next SYN chooses again among the"
OFTEN = "an endpoint that fails often is left out for a while"
LEFT = "connections to an endpoint that has left are reset"


@pytest.mark.parametrize(
    ("parts", "sent", "spec", "endpoints", "expected"),
    [
        pytest.param("none", "P CIP:80", {}, "L1 R1", "", id="none"),
        pytest.param(
            "all",
            "P CIP:80",
            {},
            "L1 R1",
            f"if the endpoint refuses, or does not answer for a second, {AGAIN} 2 endpoints;"
            f" {OFTEN}; {LEFT}",
            id="all",
        ),
        pytest.param(
            "retryRefused",
            "P CIP:80",
            {},
            "L1 R1",
            f"if the endpoint refuses, {AGAIN} 2 endpoints",
            id="refused",
        ),
        pytest.param(
            "retryUnanswered",
            "P CIP:80",
            STICKY,
            "L1 R1",
            f"if the endpoint does not answer for a second, {AGAIN} 2 endpoints, although it keeps"
            " its endpoint otherwise",
            id="unanswered-with-affinity",
        ),
        pytest.param(
            "retryRefused",
            "X VIP:80",
            LOCAL,
            "L1 L2 R1",
            f"if the endpoint refuses, {AGAIN} 2 endpoints of this node",
            id="those-of-this-node",
        ),
        pytest.param(
            "resetGone,eject,retryRefused",
            "P CIP:80",
            {},
            "L1",
            f"connections are not retried: there is no other endpoint; {LEFT}",
            id="the-only-endpoint",
        ),
        pytest.param(
            "retryRefused",
            "X VIP:80",
            LOCAL,
            "L1 R1",
            "connections are not retried: there is no other endpoint of this node",
            id="the-only-one-of-this-node",
        ),
        pytest.param(
            "retryRefused",
            "P VIP:80",
            LOCAL,
            "L1 R1",
            "connections are not retried: some clients of this address have only one endpoint",
            id="others-have-only-one",
        ),
        pytest.param("resetGone", "P CIP:80", {}, "L1", LEFT, id="only-resets"),
    ],
)
def test_what_is_done_if_the_endpoint_fails(
    parts: str, sent: str, spec: Document, endpoints: str, expected: str
) -> None:
    metadata = {"namespace": "shop", "name": "cart", "annotations": {HEALING_ANNOTATION: parts}}
    found = explained(sent, {**everywhere(spec), "metadata": metadata}, endpoints)
    assert expected == found.healing
    assert (f"\n  healing    {expected}\n" in render(found)) == bool(expected)
