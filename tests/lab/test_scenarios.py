"""Features that take more than one packet or other settings, written by hand."""

import time
from collections import Counter

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import (
    ETP_LOCAL,
    NARROW_RANGES,
    RANGES,
    UDP,
    Address,
    Port,
    deploy,
    everywhere,
    mall,
)
from lab.documents import in_family
from lab.modes import differs, sampled
from lab.outcome import Fate
from lab.pairs import all_pairs, pair
from lab.plan import cluster_ip, external_ip, vip
from lab.stage import Lab
from world import Document

TCP = Protocol.TCP
NODE = "198.51.100.10"


@pytest.mark.parametrize(
    ("flags", "cidr"),
    [
        pytest.param((), True, id="by-cluster-cidr", marks=pytest.mark.sctp),
        pytest.param((), False, id="without-detector"),
        pytest.param(("--masquerade-all",), True, id="masquerade-all"),
        pytest.param(
            ("--masquerade-all",), False, id="masquerade-all-without-detector", marks=sampled
        ),
        pytest.param(("--detect-local-mode=NodeCIDR",), False, id="by-node-cidr", marks=sampled),
        pytest.param(
            (
                "--detect-local-mode=InterfaceNamePrefix",
                "--pod-interface-name-prefix=pod-",
            ),
            False,
            id="by-interface-prefix",
        ),
        pytest.param(
            ("--detect-local-mode=BridgeInterface", "--pod-bridge-interface=pod-p"),
            False,
            id="by-bridge",
            marks=sampled,
        ),
        pytest.param(
            ("--nodeport-addresses=all",), True, id="node-ports-everywhere", marks=sampled
        ),
        pytest.param(
            ("--nodeport-addresses=198.51.100.64/26,2001:db8:aa::77/128",),
            True,
            id="node-ports-on-the-other-address",
        ),
        pytest.param(
            ("--nodeport-addresses=198.51.100.0/24",), True, id="node-ports-of-one-family"
        ),
        pytest.param(
            ("--feature-gates=AllowServiceExternalIPs=false",), True, id="no-external-ips"
        ),
    ],
)
def test_the_mall(lab: Lab, flags: tuple[str, ...], cidr: bool) -> None:
    lab.run(*flags, documents=mall(), cidr=cidr)
    lab.compare()


@differs("ipvs", reason="endpoints take turns: test_ipvs_schedulers.py")
@pytest.mark.parametrize("family", Family)
def test_endpoints_share_evenly(lab: Lab, family: Family) -> None:
    lab.run(documents=deploy("cart", Address(21), "L1 L2 R1"))
    destination = cluster_ip(21, family)
    tried = [pair("P", (destination, TCP, 80))] * 1200
    outcomes = lab.dialer.dial([each.probe() for each in tried])
    share = Counter(outcome.who for outcome in outcomes)
    assert share.keys() == {"L1", "L2", "R1"}
    # 400 each; the standard deviation is 16.
    assert all(280 < count < 520 for count in share.values()), share


@pytest.mark.parametrize("family", Family)
def test_a_service_of_one_family_leaves_the_other_alone(lab: Lab, family: Family) -> None:
    both = deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)])
    service, *slices = both
    spec = service["spec"]
    assert isinstance(spec, dict)
    alone: Document = {
        **service,
        "spec": {
            **spec,
            "clusterIP": cluster_ip(21, family),
            "clusterIPs": [cluster_ip(21, family)],
            "ipFamilies": [family.value],
        },
    }
    lab.run(documents=[alone, *slices])
    lab.compare()
    other = family.other
    pairs = [
        pair(source, (address, TCP, port))
        for source in "PHX"
        for address, port in (
            (cluster_ip(21, other), 80),
            (vip(21, other), 80),
            (external_ip(21, other), 80),
            (in_family(NODE, other), 31080),
        )
    ]
    assert lab.compare(pairs) == 12


@pytest.mark.sctp
@pytest.mark.parametrize("family", Family)
def test_an_external_ip_that_kestrel_has_itself(lab: Lab, family: Family) -> None:
    address = external_ip(21, family)
    with lab.network.node_address(address):
        lab.run(documents=deploy("cart", everywhere(21), "", [Port(node_port=31080)]))
        lab.compare()
        assert lab.dial("X", address, 80).fate is Fate.UNREACHABLE
        lab.put(*deploy("cart", everywhere(21), "L1 R1", [Port(node_port=31080)]))
        lab.compare()
    lab.put()


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(
    ("spec", "allowed"), [(RANGES, True), (NARROW_RANGES, False)], ids=["in-range", "out-of-range"]
)
def test_kestrel_uses_the_balancers_address_as_its_own(
    lab: Lab, family: Family, spec: Document, allowed: bool
) -> None:
    address = vip(21, family)
    with lab.network.node_address(address):
        lab.run(documents=deploy("bank", everywhere(21), "L1 R1", spec=spec))
        own = pair("H", (address, TCP, 80), address)
        assert lab.compare([own]) == 1
        (outcome,) = lab.dialer.dial([own.probe()])
        assert (outcome.fate is Fate.ANSWERED) == allowed
    lab.put()


def test_thirty_endpoints_are_all_used_and_go_one_by_one(lab: Lab) -> None:
    """Slots of a list are filled, and closed when an endpoint leaves from anywhere."""
    targets = (53, 5353, 8080, 8081, 8443)
    pods = ("L1", "L2", "L3", "R1", "R2", "H")
    (service, *_) = deploy("cart", everywhere(21), "", [Port(node_port=31080)])

    def slices(count: int) -> list[Document]:
        """One slice for each target port, with the endpoints that are left."""
        result = []
        for number, target in enumerate(targets):
            names = [p for n, p in enumerate(pods) if n * len(targets) + number < count]
            _, *pair_ = deploy("cart", Address(21), " ".join(names), [Port(80, target)])
            for each in pair_:
                metadata = each["metadata"]
                assert isinstance(metadata, dict)
                result.append(
                    {**each, "metadata": {**metadata, "name": f"{metadata['name']}-{target}"}}
                )
        return result

    lab.run(documents=[service, *slices(30)])
    for count in (30, 29, 17, 18, 7, 8, 2, 1, 0, 3):
        lab.put(service, *slices(count))
        lab.compare(sources=("P", "X"))


@pytest.mark.sctp
def test_ports_of_a_service_are_apart(lab: Lab) -> None:
    """One port's endpoints may serve while another's do not, and protocols share a number."""
    ports = (Port(53, 5353), Port(53, 53, protocol=UDP), Port(80, 8080, 31080))
    service, *both = deploy("dns", everywhere(21), "L1 R1", ports)
    tcp_only = [
        {**slice_, "ports": [{"name": "tcp-53", "protocol": "TCP", "port": 8443}]}
        for slice_ in both
    ]
    lab.run(documents=[service, *both])
    lab.compare()
    lab.put(service, *tcp_only)
    lab.compare()


def test_a_cluster_ip_moves_to_another_service(lab: Lab) -> None:
    lab.run(documents=deploy("old", everywhere(21), "L1", [Port(node_port=31080)]))
    lab.compare()
    lab.put(*deploy("new", everywhere(21), "R1 R2", [Port(node_port=31080)], ETP_LOCAL))
    lab.compare()


def test_two_services_claim_one_external_ip(lab: Lab) -> None:
    one = deploy("one", Address(21, external=True), "L1")
    address: Document = {"externalIPs": [external_ip(21)]}
    two = with_spec(deploy("two", Address(22), "R1"), address)
    lab.run(documents=[*two, *one])
    lab.compare()
    lab.put(*two)
    lab.compare()


def with_spec(documents: list[Document], spec: Document) -> list[Document]:
    service, *slices = documents
    old = service["spec"]
    assert isinstance(old, dict)
    return [{**service, "spec": {**old, **spec}}, *slices]


@pytest.mark.sctp
def test_all_services_are_removed(lab: Lab) -> None:
    lab.run(documents=mall())
    pairs = all_pairs(lab.expectation())
    lab.put()
    assert all(not table.entries for table in lab.expectation().tables.values())
    lab.compare(pairs)


@pytest.mark.parametrize("addresses", ["primary,localhost", "primary", "all"])
@pytest.mark.parametrize("spec", [{}, ETP_LOCAL], ids=["cluster", "local"])
def test_node_ports_of_the_loopback_address(lab: Lab, addresses: str, spec: Document) -> None:
    """The feature gate of nftables mode."""
    ports = (Port(node_port=31090), Port(53, 53, 31091, UDP))
    lab.run(
        "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true",
        f"--nodeport-addresses={addresses}",
        documents=[
            *deploy("cart", Address(21), "L1 R1", ports, {"type": "NodePort", **spec}),
            *deploy("none", Address(22), "", [Port(node_port=31092)], {"type": "NodePort"}),
        ],
    )
    lab.compare(sources=("LO", "X"))


@differs("ipvs", reason="sets, servers and addresses are repaired too: test_ipvs_daemon.py")
def test_what_others_destroy_is_repaired(lab: Lab) -> None:
    lab.run(documents=mall())
    with lab.daemon.paused():  # it would repair the first part before the last is destroyed
        for command in lab.variant.flush:
            lab.network.node.run(command)
    deadline = time.monotonic() + 30.0
    for family in Family:
        while lab.dial("P", cluster_ip(21, family), 80).who not in ("L1", "R1"):
            assert time.monotonic() < deadline, "not repaired in 30 s"
            time.sleep(0.01)
    lab.compare()


@differs("ipvs", reason="the test kernel has no nftables for IP")
@pytest.mark.parametrize("family", Family)
def test_rules_of_others_stay(lab: Lab, family: Family) -> None:
    name = "ip" if family is Family.IPV4 else "ip6"
    lab.run(documents=mall())
    lab.network.node.run(["nft", f"add table {name} theirs"])
    lab.restart()
    lab.put()
    assert f"table {name} theirs" in lab.network.node.run(["nft", "list", "tables"])
    lab.network.node.run(["nft", f"delete table {name} theirs"])
