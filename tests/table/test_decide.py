"""What the worked cases leave open: reasons, shares, classes of sources, oddities of modes."""

from fractions import Fraction

import msgspec
import pytest

from kubeproxy.base.healing import Healing
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.cluster.model.serviceport import HEALING_ANNOTATION
from kubeproxy.table.decide import Action, Override, Reason, Verdict, classify, decide
from kubeproxy.table.entries import FrontendKind, ServicePortName
from kubeproxy.table.node import Detector, NodeView, PodCIDR, PodInterface
from kubeproxy.table.policy import Source, Why
from world import (
    EXTERNAL_IP,
    NODE_PORT,
    VIP,
    Document,
    Mode,
    endpoint_slice,
    everywhere,
    node,
    packet,
    prefix,
    service,
    shorthand,
    table_of,
)

NFT, IPT, IPVS = Mode.NFTABLES, Mode.IPTABLES, Mode.IPVS
ALL = (NFT, IPT, IPVS)
LOCAL: Document = {"externalTrafficPolicy": "Local"}
RANGES: Document = {"loadBalancerSourceRanges": ["198.51.100.0/24", "192.0.2.0/25"]}
NARROW: Document = {"loadBalancerSourceRanges": ["192.0.2.0/25"]}
OTHER_FAMILY: Document = {"loadBalancerSourceRanges": ["2001:db8::/32"]}


def changed(mode: Mode = NFT, **fields: object) -> NodeView:
    return msgspec.structs.replace(node(mode), **fields)


def decided(
    sent: str,
    svc: Document,
    endpoints: str = "L1 R1",
    mode: Mode = NFT,
    here: NodeView | None = None,
) -> Verdict:
    table = table_of(svc, endpoint_slice(endpoints))
    return decide(packet(sent), table, here or node(mode), mode.quirks)


# --- where a packet comes from ----------------------------------------------------------------

RANGE = PodCIDR(prefix("10.64.0.0/14"))


@pytest.mark.parametrize(
    ("detector", "sent", "expected"),
    [
        pytest.param(RANGE, "P CIP:80", Source.POD, id="in-the-range"),
        pytest.param(RANGE, "X CIP:80", Source.OUTSIDE, id="not-in-the-range"),
        pytest.param(RANGE, "H CIP:80", Source.HOST, id="own-address"),
        pytest.param(RANGE, "127.0.0.9 CIP:80", Source.HOST, id="loopback"),
        pytest.param(
            PodCIDR(prefix("198.51.100.0/24")), "H CIP:80", Source.POD, id="own-address-in-range"
        ),
        pytest.param(None, "P CIP:80", Source.OUTSIDE, id="no-detector"),
        pytest.param(PodInterface("cni0"), "X,cni0 CIP:80", Source.POD, id="bridge"),
        pytest.param(PodInterface("cni0"), "X,cni01 CIP:80", Source.OUTSIDE, id="no-prefix"),
        pytest.param(PodInterface("cni0"), "H CIP:80", Source.HOST, id="no-interface"),
        pytest.param(PodInterface("veth", True), "X,veth7 CIP:80", Source.POD, id="prefix"),
        pytest.param(PodInterface("veth", True), "X,eth0 CIP:80", Source.OUTSIDE, id="no-match"),
    ],
)
def test_classify(detector: Detector | None, sent: str, expected: Source) -> None:
    assert expected is classify(packet(sent), changed(detector=detector))


# --- what a verdict says ----------------------------------------------------------------------


def test_a_forwarded_packet_has_shares_and_names_what_it_matched() -> None:
    verdict = decided("L1 VIP:80", everywhere({"sessionAffinity": "ClientIP"}), "L1 R1 R2")
    assert [Fraction(1, 3)] * 3 == [choice.share for choice in verdict.choices]
    assert [choice.hairpin for choice in verdict.choices] == [True, False, False]
    assert ServicePortName("shop", "cart", "http", Protocol.TCP) == verdict.service
    assert verdict.frontend is not None
    assert verdict.frontend == (FrontendKind.LOAD_BALANCER, VIP, 80)
    assert (
        verdict.why,
        verdict.affinity_seconds,
        verdict.reason,
    ) == (Why.CLUSTER_POLICY, 10800, None)


@pytest.mark.parametrize(
    ("sent", "svc", "endpoints", "expected"),
    [
        pytest.param(
            "P CIP:80", service({"internalTrafficPolicy": "Local"}), "L1", True, id="internal"
        ),
        pytest.param("X VIP:80", everywhere(LOCAL), "L1", True, id="external"),
        pytest.param("X VIP:80", everywhere(LOCAL), "R1", True, id="external-no-endpoint-here"),
        pytest.param("P VIP:80", everywhere(LOCAL), "L1", False, id="short-circuit"),
        pytest.param("X VIP:80", everywhere(), "L1", False, id="cluster"),
    ],
)
def test_a_verdict_says_whether_only_local_endpoints_count(
    sent: str, svc: Document, endpoints: str, expected: bool
) -> None:
    assert expected is decided(sent, svc, endpoints).local_policy


EVERYWHERE = everywhere()
REASONS = [
    ("P CIP:80", service(), "", NFT, (Action.REJECT, Reason.NO_ENDPOINTS)),
    ("X NP", everywhere(), "", NFT, (Action.REJECT, Reason.NO_ENDPOINTS)),
    ("X VIP:80", everywhere(LOCAL), "R1", NFT, (Action.DROP, Reason.NO_LOCAL_ENDPOINTS)),
    ("Y VIP:80", everywhere(NARROW), "L1", NFT, (Action.DROP, Reason.SOURCE_RANGES)),
    ("Y VIP:80", everywhere(NARROW), "", IPT, (Action.REJECT, Reason.NO_ENDPOINTS)),
    ("P CIP:443", service(), "L1", NFT, (Action.REJECT, Reason.UNDEFINED_PORT)),
    ("P CIP:443", service(), "L1", IPT, (Action.PASS, Reason.NO_FRONTEND)),
    ("P VIP:443", everywhere(), "L1", IPVS, (Action.REJECT, Reason.UNDEFINED_PORT)),
    ("P VIP:443", everywhere(), "L1", NFT, (Action.PASS, Reason.NO_FRONTEND)),
    ("P 10.112.0.77:80", service(), "L1", NFT, (Action.DROP, Reason.UNALLOCATED)),
    ("P 10.112.0.77:80", service(), "L1", IPT, (Action.PASS, Reason.NO_FRONTEND)),
    ("H VIP:80", everywhere(), "", IPT, (Action.PASS, Reason.NOT_CHECKED_ON_OUTPUT)),
    (
        "X 198.51.100.77:31080",
        everywhere(),
        "L1",
        NFT,
        (Action.PASS, Reason.NOT_NODE_PORT_ADDRESS),
    ),
    ("H 127.0.0.1:31080", everywhere(), "L1", NFT, (Action.PASS, Reason.LOCALHOST_OFF)),
    ("H 127.0.0.1:31080", everywhere(), "L1", IPVS, (Action.PASS, Reason.LOCALHOST_OFF)),
    ("X 8.8.8.8:31080", everywhere(), "L1", NFT, (Action.PASS, Reason.NOT_OWN_ADDRESS)),
    ("X 8.8.8.8:31080/UDP", everywhere(), "L1", NFT, (Action.PASS, Reason.NO_FRONTEND)),
    ("X 8.8.8.8:0/ICMP", everywhere(), "L1", NFT, (Action.PASS, Reason.NO_FRONTEND)),
]


@pytest.mark.parametrize(
    ("sent", "svc", "endpoints", "mode", "expected"),
    [pytest.param(*case, id=f"{case[3].value}-{case[0]}-{case[4][1].name}") for case in REASONS],
)
def test_reason(
    sent: str, svc: Document, endpoints: str, mode: Mode, expected: tuple[Action, Reason]
) -> None:
    verdict = decided(sent, svc, endpoints, mode)
    assert expected == (verdict.action, verdict.reason)
    assert verdict.choices == ()


@pytest.mark.parametrize(
    ("sent", "matched"),
    [
        pytest.param("Y VIP:80", True, id="dropped-by-source-ranges"),
        pytest.param("X 198.51.100.77:31080", True, id="not-a-node-port-address"),
        pytest.param("P CIP:443", False, id="undefined-port"),
        pytest.param("X 8.8.8.8:31080", False, id="node-port-of-another-host"),
    ],
)
def test_a_verdict_names_the_service_only_where_the_packet_is_addressed_to_it(
    sent: str, matched: bool
) -> None:
    verdict = decided(sent, everywhere(NARROW))
    assert [matched, matched] == [verdict.service is not None, verdict.frontend is not None]


# --- nftables: node ports of the loopback address ---------------------------------------------

LOOPBACK_PORTS = changed(localhost_gate=True, node_port_ranges=(prefix("127.0.0.0/8"),))


@pytest.mark.parametrize(
    ("destination", "svc", "endpoints", "action", "reason"),
    [
        pytest.param("127.0.0.1:31080", everywhere(), "L1", Action.LOCAL_PROXY, None, id="served"),
        pytest.param(
            "127.0.0.2:31080",
            everywhere(),
            "L1",
            Action.PASS,
            Reason.LOCALHOST_ONE_ADDRESS,
            id="another-loopback-address",
        ),
        pytest.param(
            "127.0.0.1:31080", everywhere(), "", Action.PASS, Reason.NO_ENDPOINTS, id="no-endpoint"
        ),
        pytest.param(
            "127.0.0.1:31080",
            everywhere(LOCAL),
            "R1",
            Action.PASS,
            Reason.NO_LOCAL_ENDPOINTS,
            id="no-endpoint-here",
        ),
        pytest.param(
            "127.0.0.1:31081", everywhere(), "L1", Action.PASS, Reason.NO_FRONTEND, id="no-port"
        ),
        pytest.param(
            "198.51.100.10:31080",
            everywhere(),
            "L1",
            Action.PASS,
            Reason.NOT_NODE_PORT_ADDRESS,
            id="no-loopback-address",
        ),
    ],
)
def test_loopback_proxy(
    destination: str, svc: Document, endpoints: str, action: Action, reason: Reason | None
) -> None:
    verdict = decided(f"127.0.0.1 {destination}", svc, endpoints, here=LOOPBACK_PORTS)
    assert (action, reason) == (verdict.action, verdict.reason)


def test_the_loopback_proxy_says_that_it_looked_for_local_endpoints_only() -> None:
    verdict = decided("H 127.0.0.1:31080", everywhere(LOCAL), "R1", here=LOOPBACK_PORTS)
    assert verdict.local_policy


def test_loopback_node_ports_of_ipv6() -> None:
    table = table_of(
        service(
            {
                "clusterIP": "fd12::1",
                "ports": [{"name": "http", "port": 80, "nodePort": NODE_PORT}],
            }
        ),
        endpoint_slice(spec={"addressType": "IPv6", "endpoints": [{"addresses": ["fd40::11"]}]}),
        family=Family.IPV6,
    )
    here = msgspec.structs.replace(
        node(NFT, Family.IPV6), localhost_gate=True, node_port_ranges=(prefix("::1/128"),)
    )
    assert (
        shorthand(decide(packet("::1 [::1]:31080"), table, here, NFT.quirks)) == "proxy fd40::11"
    )


# --- iptables: what its rules do not check ----------------------------------------------------


def two_services() -> tuple[Document, ...]:
    """`cart` with a VIP that is the node's address; `till` whose node port has the number 80."""
    cart = service({"type": "LoadBalancer"}, vips=["198.51.100.10"])
    ports = [{"name": "http", "port": 8000, "nodePort": 80}]
    till = service({"type": "NodePort", "clusterIP": "10.112.0.22", "ports": ports}, name="till")
    return cart, till


def slice_of_till(endpoints: str) -> Document:
    slice_ = endpoint_slice(endpoints, name="till-1")
    slice_["metadata"] = {
        "namespace": "shop",
        "name": "till-1",
        "labels": {"kubernetes.io/service-name": "till"},
    }
    return slice_


@pytest.mark.parametrize(
    ("mode", "of_till", "expected"),
    [
        pytest.param(IPT, "L1", "L1 masq", id="iptables-goes-on-to-the-node-port"),
        pytest.param(IPT, "", "reject", id="iptables-finds-no-endpoint-there-either"),
        pytest.param(NFT, "L1", "reject", id="nftables-stops"),
    ],
)
def test_an_external_address_of_the_node_without_endpoints(
    mode: Mode, of_till: str, expected: str
) -> None:
    table = table_of(*two_services(), slice_of_till(of_till))
    assert expected == shorthand(decide(packet("X H:80"), table, node(mode), mode.quirks))


def test_iptables_without_a_node_port_of_that_number() -> None:
    table = table_of(two_services()[0])
    assert shorthand(decide(packet("X H:80"), table, node(IPT), IPT.quirks)) == "reject"


@pytest.mark.parametrize(
    ("mode", "endpoints", "expected"),
    [
        pytest.param(IPT, "", "reject", id="iptables-rejects-on-every-address"),
        pytest.param(IPT, "L1", "pass", id="iptables-leaves-it-alone-when-an-endpoint-serves"),
        pytest.param(NFT, "", "pass", id="nftables-leaves-it-alone"),
        pytest.param(IPVS, "", "pass", id="ipvs-leaves-it-alone"),
    ],
)
def test_a_node_port_on_an_address_that_serves_none(
    mode: Mode, endpoints: str, expected: str
) -> None:
    here = changed(mode, node_port_ranges=(prefix("198.51.100.10/32"),))
    verdict = decided("X 198.51.100.77:31080", everywhere(), endpoints, mode, here)
    assert expected == shorthand(verdict)


@pytest.mark.parametrize(
    "sent", ["X 198.51.100.77:31080", "P 198.51.100.77:31080", "H 127.0.0.1:31080"]
)
def test_iptables_drops_on_every_address_what_has_no_endpoint_here(sent: str) -> None:
    """Pods and the host have a short way to other nodes only where node ports are served."""
    here = changed(IPT, node_port_ranges=(prefix("198.51.100.10/32"),))
    verdict = decided(sent, everywhere(LOCAL), "R1", IPT, here)
    assert (shorthand(verdict), verdict.local_policy) == ("drop", True)


# --- ipvs: what it decides otherwise ----------------------------------------------------------

SCTP: Document = {"ports": [{"name": "http", "port": 80, "nodePort": 80, "protocol": "SCTP"}]}
TCP: Document = {"ports": [{"name": "http", "port": 80, "nodePort": 80}]}
SCTP_SLICE: Document = {"ports": [{"name": "http", "port": 8080, "protocol": "SCTP"}]}


@pytest.mark.parametrize(
    ("sent", "svc", "detector", "masquerade", "why"),
    [
        pytest.param(
            "P CIP:80", service(TCP), RANGE, True, Override.NODE_PORT_NUMBER, id="node-port-number"
        ),
        pytest.param(
            "P CIP:80",
            service({**TCP, "type": "NodePort", **LOCAL}),
            RANGE,
            False,
            Why.KEPT_FOR_POD,
            id="node-port-number-of-a-local-policy",
        ),
        pytest.param(
            "P CIP:80/SCTP", service(SCTP), RANGE, False, Why.KEPT_FOR_POD, id="sctp-node-port"
        ),
        pytest.param("P CIP:80", service(), RANGE, False, Why.KEPT_FOR_POD, id="no-node-port"),
        pytest.param(
            "X CIP:80", service(TCP), RANGE, True, Why.OFF_CLUSTER, id="as-the-route-says"
        ),
        pytest.param(
            "127.0.0.1 CIP:80", service(), RANGE, False, Override.LOOPBACK, id="loopback"
        ),
        pytest.param(
            "127.0.0.1 CIP:80", service(), None, False, Why.NO_DETECTOR, id="loopback-kept-anyway"
        ),
        pytest.param(
            "CIP CIP:80", service(), None, True, Override.FROM_CLUSTER_IP, id="from-a-cluster-ip"
        ),
        pytest.param("X CIP:80", service(), None, False, Why.NO_DETECTOR, id="no-detector"),
        pytest.param(
            "CIP VIP:80", everywhere(LOCAL), None, False, Why.KEPT_LOCAL, id="external-address"
        ),
    ],
)
def test_quirks_of_ipvs(
    sent: str, svc: Document, detector: Detector | None, masquerade: bool, why: Why | Override
) -> None:
    spec = SCTP_SLICE if "SCTP" in sent else None
    table = table_of(svc, endpoint_slice("L1 L2", spec))
    verdict = decide(packet(sent), table, changed(IPVS, detector=detector), IPVS.quirks)
    assert why is verdict.why
    assert [masquerade] * 2 == [choice.masquerade for choice in verdict.choices]


@pytest.mark.parametrize("mode", [NFT, IPT])
def test_other_modes_have_no_quirks(mode: Mode) -> None:
    verdict = decided("P CIP:80", service(TCP), mode=mode)
    assert (shorthand(verdict), verdict.why) == ("L1 R1", Why.KEPT_FOR_POD)


@pytest.mark.parametrize(
    ("mode", "svc", "sent", "expected"),
    [
        pytest.param(NFT, RANGES, "198.51.100.77 VIP:80", "L1 masq", id="own-address-in-range"),
        pytest.param(NFT, RANGES, "127.0.0.1 VIP:80", "drop", id="nft-own-address-not-in-range"),
        pytest.param(IPT, RANGES, "127.0.0.1 VIP:80", "drop", id="ipt-own-address-not-in-range"),
        pytest.param(IPVS, RANGES, "127.0.0.1 VIP:80", "L1", id="ipvs-trusts-the-node"),
        pytest.param(IPVS, NARROW, "H VIP:80", "L1 masq", id="ipvs-whatever-the-ranges-say"),
        pytest.param(IPVS, NARROW, "CIP VIP:80", "L1 masq", id="ipvs-with-any-address-it-has"),
        pytest.param(IPVS, NARROW, "VIP VIP:80", "drop", id="ipvs-but-not-as-the-service-itself"),
        pytest.param(IPVS, RANGES, "VIP VIP:80", "L1 masq", id="ipvs-unless-the-node-is-in-range"),
        pytest.param(NFT, OTHER_FAMILY, "X VIP:80", "drop", id="no-range-of-the-family"),
        pytest.param(NFT, NARROW, "Y EXT:80", "L1 masq", id="external-ips-are-open"),
        pytest.param(NFT, NARROW, "Y CIP:80", "L1 masq", id="cluster-ips-are-open"),
    ],
)
def test_source_ranges(mode: Mode, svc: Document, sent: str, expected: str) -> None:
    assert expected == shorthand(decided(sent, everywhere(svc), "L1", mode))


def test_an_external_ip_of_another_interface_is_not_bound_by_ipvs() -> None:
    here = changed(IPVS, addresses=("198.51.100.10", EXTERNAL_IP))
    table = table_of(everywhere(), endpoint_slice("L1"))
    verdicts = [
        decide(packet(f"X {where}:81"), table, here, IPVS.quirks) for where in ("EXT", "VIP")
    ]
    assert [shorthand(verdict) for verdict in verdicts] == ["pass", "reject"]


def test_an_ipvs_node_is_refused_before_its_source_is_looked_at() -> None:
    assert shorthand(decided("VIP VIP:80", everywhere(NARROW), "", IPVS)) == "reject"


@pytest.mark.parametrize("mode", ALL)
def test_a_client_that_reaches_itself_is_masqueraded_and_others_are_not(mode: Mode) -> None:
    verdict = decided("L1 CIP:80", service(), "L1 L2", mode)
    assert [(c.masquerade, c.hairpin) for c in verdict.choices] == [(True, True), (False, False)]


# --- healing ----------------------------------------------------------------------------------

NONE, EVERY, GONE = Healing.NONE, Healing.ALL, Healing.RESET_GONE


@pytest.mark.parametrize(
    ("mode", "sent", "endpoints", "healed", "not_healed"),
    [
        pytest.param(NFT, "P CIP:80", "L1 R1", EVERY, NONE, id="where-there-is-a-choice"),
        pytest.param(NFT, "P CIP:80", "L1", GONE, EVERY & ~GONE, id="the-only-endpoint"),
        pytest.param(NFT, "P CIP:80", "", NONE, NONE, id="nothing-to-heal"),
        pytest.param(NFT, "X VIP:80", "L1 L2 R1", EVERY, NONE, id="a-choice-on-this-node"),
        pytest.param(
            NFT, "X VIP:80", "L1 R1 R2", GONE, EVERY & ~GONE, id="the-only-one-of-this-node"
        ),
        pytest.param(
            NFT, "P VIP:80", "L1 R1 R2", GONE, EVERY & ~GONE, id="others-have-only-one-there"
        ),
        pytest.param(IPT, "P CIP:80", "L1 R1", NONE, NONE, id="a-mode-that-does-not-heal"),
    ],
)
def test_what_is_done_if_the_endpoint_fails(
    mode: Mode, sent: str, endpoints: str, healed: Healing, not_healed: Healing
) -> None:
    metadata = {"namespace": "shop", "name": "cart", "annotations": {HEALING_ANNOTATION: "all"}}
    verdict = decided(sent, {**everywhere(LOCAL), "metadata": metadata}, endpoints, mode)
    assert (healed, not_healed) == (verdict.healing, verdict.not_healed)


def test_what_nobody_asks_for_is_not_done() -> None:
    verdict = decided("P CIP:80", everywhere(), "L1 R1")
    assert (verdict.healing, verdict.not_healed) == (NONE, NONE)


# --- a proxy that relays ----------------------------------------------------------------------


def test_endpoints_see_the_proxy_that_relays() -> None:
    for sent in ("P CIP:80", "X VIP:80"):
        verdict = decided(sent, everywhere(LOCAL), mode=Mode.USERSPACE)
        assert verdict.action is Action.FORWARD
        assert verdict.why is Why.RELAYED
        assert all(choice.masquerade for choice in verdict.choices)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param("P CIP:80/SCTP", Reason.NOT_RELAYED, id="an-address"),
        pytest.param("X H:31080/SCTP", Reason.NOT_RELAYED, id="a-node-port"),
        pytest.param("P CIP:81/SCTP", Reason.NO_FRONTEND, id="no-service"),
    ],
)
def test_sctp_is_not_relayed(sent: str, expected: Reason) -> None:
    ports = [{"name": "http", "protocol": "SCTP", "port": 80, "nodePort": NODE_PORT}]
    slice_ports = {"ports": [{"name": "http", "protocol": "SCTP", "port": 8080}]}
    table = table_of(everywhere({"ports": ports}), endpoint_slice("L1", slice_ports))
    verdict = decide(packet(sent), table, node(Mode.USERSPACE), Mode.USERSPACE.quirks)
    assert (verdict.action, verdict.reason) == (Action.PASS, expected)
