"""What is so in iptables mode only."""

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import UDP, Port, deploy, everywhere, mall
from lab.outcome import Fate
from lab.plan import cluster_ip
from lab.stage import Lab
from lab.test_connections import answerers, eventually
from lab.xtables import PROGRAMS


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
