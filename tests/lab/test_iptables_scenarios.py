"""What the lab tries with every mode, with iptables mode and both kinds of its programs."""

from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import Backend
from lab.deploy import UDP, Port, deploy, everywhere, mall
from lab.network import Network
from lab.outcome import Fate
from lab.plan import cluster_ip
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_affinity import (  # noqa: F401  # run again here
    test_a_client_stays_and_clients_differ,
    test_an_endpoint_that_comes_takes_nobody_away,
    test_each_policy_remembers_within_its_endpoints,
    test_frontends_share_what_is_remembered,
    test_services_and_ports_do_not_share,
    test_switching_affinity_on_and_off,
    test_what_is_remembered_outlives_the_proxy,
    test_who_does_not_come_back_in_time_is_forgotten,
    test_who_loses_an_endpoint_gets_another_for_good,
)
from lab.test_connections import (  # noqa: F401  # run again here
    answerers,
    eventually,
    test_a_flow_that_was_before_the_service_is_served,
    test_datagrams_leave_an_endpoint_that_is_gone,
    test_datagrams_stay_with_an_endpoint_that_still_serves,
    test_tcp_goes_on_whatever_happens,
)
from lab.test_generated import test_a_sequence_of_changes  # noqa: F401  # run again here
from lab.test_scenarios import (  # noqa: F401  # run again here
    test_a_cluster_ip_moves_to_another_service,
    test_a_service_of_one_family_leaves_the_other_alone,
    test_an_external_ip_that_kestrel_has_itself,
    test_endpoints_share_evenly,
    test_everything_goes,
    test_kestrel_uses_the_balancers_address_as_its_own,
    test_node_ports_of_the_loopback_address,
    test_ports_of_a_service_are_apart,
    test_the_mall,
    test_thirty_endpoints_are_all_used_and_go_one_by_one,
    test_two_services_claim_one_external_ip,
    test_what_others_destroy_is_repaired,
)
from lab.test_worked_cases import test_worked_case  # noqa: F401  # run again here
from lab.xtables import PROGRAMS, VARIANTS, programs


@pytest.fixture(scope="module", params=Backend, ids=lambda backend: backend.value)
def stage(
    request: pytest.FixtureRequest, network: Network, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A lab for all tests with one kind of programs."""
    directory = tmp_path_factory.mktemp(f"iptables-{request.param.value}")
    with programs(request.param, directory / "bin"):
        programmer = DaemonProcess(network.node, directory)
        stage = Lab(network, programmer, VARIANTS[request.param])
        yield stage
        stage.stop()


@pytest.mark.parametrize("family", Family)
def test_datagrams_to_a_cluster_ip_without_endpoints_are_refused(lab: Lab, family: Family) -> None:
    """Not so what the node itself sends to external addresses: see `decide`."""
    ports = [Port(53, 53, 31081, UDP)]
    lab.run(documents=deploy("dns", everywhere(21), "R1", ports))
    flows = [lab.flow(source, cluster_ip(21, family), 53) for source in ("P", "H", "X")]
    assert answerers(flows) == {"R1"}
    lab.put(*deploy("dns", everywhere(21), "", ports))
    eventually(Fate.UNREACHABLE.value, flows)
    lab.compare()


@pytest.mark.parametrize("flag", ["", "--iptables-localhost-nodeports=false"])
def test_node_ports_of_the_loopback_address_can_be_switched_off(lab: Lab, flag: str) -> None:
    lab.run(*([flag] if flag else []), documents=mall())
    lab.compare(sources=("LO", "X"))


@pytest.mark.parametrize("family", Family)
def test_rules_and_chains_of_others_stay(lab: Lab, family: Family) -> None:
    program = PROGRAMS[list(Family).index(family)]
    lab.run(documents=mall())
    for words in ("-N THEIRS", "-A THEIRS -j ACCEPT", "-I PREROUTING -j THEIRS"):
        lab.network.node.run([program, "-w", "-t", "nat", *words.split()])
    lab.restart()
    lab.put()
    listed = lab.network.node.run([f"{program}-save", "-t", "nat"])
    assert "-A THEIRS -j ACCEPT" in listed
    rules = [line for line in listed.splitlines() if line.startswith("-A PREROUTING")]
    assert rules[0] == "-A PREROUTING -j THEIRS"
    for words in ("-D PREROUTING -j THEIRS", "-F THEIRS", "-X THEIRS"):
        lab.network.node.run([program, "-w", "-t", "nat", *words.split()])
