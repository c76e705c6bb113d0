"""What the lab tries with every mode, with ipvs mode; in a kernel that has it."""

import random
from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import NARROW_RANGES, SCTP, UDP, Port, affinity, deploy, everywhere, mall
from lab.documents import dual_stack
from lab.ipvs import VARIANT
from lab.network import Network
from lab.pairs import all_pairs, pair
from lab.plan import cluster_ip, external_ip, vip
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_affinity import (  # noqa: F401  # run again here
    test_a_client_stays_and_clients_differ,
    test_each_policy_remembers_within_its_endpoints,
    test_switching_affinity_on_and_off,
)
from lab.test_connections import (  # noqa: F401  # run again here
    answerers,
    eventually,
    flows_to,
    test_a_flow_that_was_before_the_service_is_served,
    test_datagrams_leave_an_endpoint_that_is_gone,
    test_datagrams_to_a_service_without_endpoints_are_refused,
)
from lab.test_scenarios import (  # noqa: F401  # run again here
    test_a_cluster_ip_moves_to_another_service,
    test_a_service_of_one_family_leaves_the_other_alone,
    test_an_external_ip_that_kestrel_has_itself,
    test_everything_goes,
    test_kestrel_uses_the_balancers_address_as_its_own,
    test_ports_of_a_service_are_apart,
    test_two_services_claim_one_external_ip,
)
from lab.test_worked_cases import CLUSTERS
from table.test_worked_cases import CASES
from world import endpoint_slice, packet, shorthand

SAMPLE = 150


@pytest.fixture(scope="module")
def stage(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for all tests of this file."""
    programmer = DaemonProcess(network.node, tmp_path_factory.mktemp("ipvs"))
    stage = Lab(network, programmer, VARIANT)
    yield stage
    stage.stop()


def test_the_mall(lab: Lab) -> None:
    lab.run(documents=mall())
    lab.compare()


@pytest.mark.parametrize(
    ("flags", "cidr"),
    [
        pytest.param((), False, id="without-detector"),
        pytest.param(("--masquerade-all",), True, id="masquerade-all"),
        pytest.param(
            ("--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=pod-"),
            False,
            id="by-interface-prefix",
        ),
        pytest.param(
            ("--nodeport-addresses=198.51.100.64/26,2001:db8:aa::77/128",),
            True,
            id="node-ports-on-the-other-address",
        ),
    ],
)
def test_some_of_the_mall(lab: Lab, flags: tuple[str, ...], cidr: bool) -> None:
    """As the mall, for fewer pairs: this kernel is slow, and what the flags change shows soon."""
    lab.run(*flags, documents=mall(), cidr=cidr)
    pairs = all_pairs(lab.expectation())
    assert lab.compare(random.Random(SAMPLE).sample(pairs, SAMPLE)) == SAMPLE


@pytest.mark.parametrize("name", CLUSTERS)
def test_worked_case(lab: Lab, name: str) -> None:
    service, endpoints = CLUSTERS[name]
    lab.run(documents=dual_stack([service, endpoint_slice(endpoints)]))
    expected = lab.expectation()
    for _, modes, svc, eps, sent, verdict in CASES:
        if (svc, eps) == (service, endpoints) and lab.variant.mode in modes:
            assert shorthand(expected.verdict(packet(sent))) == verdict
    lab.compare(sources=("L1", "H", "X"))


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("endpoints", ["L1 R1", ""], ids=["served", "nobody"])
def test_the_node_uses_the_balancers_address_by_itself(
    lab: Lab, family: Family, endpoints: str
) -> None:
    """It has the address on its device, where others would need an interface with it."""
    lab.run(documents=deploy("bank", everywhere(21), endpoints, spec=NARROW_RANGES))
    address = vip(21, family)
    for source in (address, cluster_ip(21, family)):
        lab.compare([pair("H", (address, Protocol.TCP, 80), source)])


@pytest.mark.parametrize("family", Family)
def test_frontends_remember_each_by_itself(lab: Lab, family: Family) -> None:
    """One client after the other takes the next endpoint, at every address anew."""
    lab.run()
    lab.put(*deploy("sticky", everywhere(21), "L1 L2 R1", spec=affinity()))
    lab.dial("P", vip(21, family), 80)
    addresses = (cluster_ip(21, family), vip(21, family), external_ip(21, family))
    first = [lab.dial("X", address, 80).who for address in addresses]
    assert len(set(first)) > 1
    for _ in range(3):
        assert [lab.dial("X", address, 80).who for address in addresses] == first


def test_tcp_goes_on_while_its_service_is_there(lab: Lab) -> None:
    lab.run(documents=mall())
    connections = [
        lab.connect(source, address, port, protocol)
        for source in ("P", "H", "X")
        for family in Family
        for address, port, protocol in (
            (cluster_ip(23, family), 80, Protocol.TCP),
            (vip(24, family), 80, Protocol.TCP),
            (external_ip(37, family), 81, Protocol.SCTP),
        )
    ]
    lab.put(*mall(), *deploy("more", everywhere(39), "L1"))
    for connection in connections:
        connection.talk()
    ports = [Port(node_port=31080), Port(53, 53, 31081, UDP)]
    others = [Port(81, 8081, 31090, SCTP)]
    lab.put(
        *deploy("front", everywhere(23), "L2", ports),
        *deploy("near", everywhere(24), "L2", [Port(node_port=31082)]),
        *deploy("exchange", everywhere(37), "L1 R1", others),
    )
    for connection in connections:
        connection.talk()
    assert lab.dial("P", cluster_ip(23), 80).who == "L2"
