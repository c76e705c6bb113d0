"""Session affinity: over time, over connections, and over the frontends of a service."""

import time
from collections import Counter

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import ETP_LOCAL, UDP, Port, affinity, deploy, everywhere
from lab.documents import in_family
from lab.modes import differs
from lab.plan import cluster_ip, external_ip, vip
from lab.stage import Lab
from world import Document

NODE = "198.51.100.10"
PORTS = (Port(node_port=31080), Port(53, 53, protocol=UDP))


def sticky(endpoints: str, seconds: int = 10800, spec: Document | None = None) -> list[Document]:
    return deploy(
        "sticky", everywhere(21), endpoints, PORTS, {**affinity(seconds), **(spec or {})}
    )


def begin(lab: Lab, documents: list[Document]) -> None:
    """Services that are new: nothing is remembered of them."""
    lab.run()
    lab.put(*documents)


@pytest.mark.parametrize("family", Family)
def test_a_client_keeps_its_endpoint_and_clients_differ(lab: Lab, family: Family) -> None:
    begin(lab, sticky("L1 L2 R1"))
    address = cluster_ip(21, family)
    first = lab.dial_crowd(address, 80)
    # 20 each; the standard deviation is 3.7.
    assert Counter(first).keys() == {"L1", "L2", "R1"}
    for _ in range(5):
        assert lab.dial_crowd(address, 80) == first


@differs("ipvs", reason="each virtual server remembers by itself: test_ipvs_scenarios.py")
@pytest.mark.parametrize("family", Family)
def test_frontends_share_affinity(lab: Lab, family: Family) -> None:
    begin(lab, sticky("L1 L2 R1"))
    first = lab.dial_crowd(cluster_ip(21, family), 80)
    assert lab.dial_crowd(vip(21, family), 80) == first
    assert lab.dial_crowd(external_ip(21, family), 80) == first
    assert lab.dial_crowd(in_family(NODE, family), 31080) == first


def test_services_and_ports_do_not_share(lab: Lab) -> None:
    other = deploy("other", everywhere(22), "L1 L2 R1", spec=affinity())
    begin(lab, [*sticky("L1 L2 R1"), *other])
    first = lab.dial_crowd(cluster_ip(21), 80)
    lab.dial("P", cluster_ip(22), 80)  # ipvs mode takes turns: this shifts them
    assert lab.dial_crowd(cluster_ip(22), 80) != first
    lab.dial("P", cluster_ip(21), 53, Protocol.UDP)
    datagrams = lab.dial_crowd(cluster_ip(21), 53, Protocol.UDP)
    assert datagrams != first
    assert lab.dial_crowd(cluster_ip(21), 53, Protocol.UDP) == datagrams


@pytest.mark.parametrize("family", Family)
def test_a_client_whose_endpoint_goes_keeps_the_next_one(lab: Lab, family: Family) -> None:
    begin(lab, sticky("L1 L2 R1"))
    address = cluster_ip(21, family)
    first = lab.dial_crowd(address, 80)
    lab.put(*sticky("L1 L2"))
    second = lab.dial_crowd(address, 80)
    assert [who for who in second if who not in ("L1", "L2")] == []
    stayed = [(a, b) for a, b in zip(first, second, strict=True) if a != "R1"]
    assert [a for a, _ in stayed] == [b for _, b in stayed]
    lab.put(*sticky("L1 L2 R1"))
    assert lab.dial_crowd(address, 80) == second


def test_a_new_endpoint_takes_no_clients_from_others(lab: Lab) -> None:
    begin(lab, sticky("L1 R1"))
    first = lab.dial_crowd(vip(21), 80)
    lab.put(*sticky("L1 L2 L3 R1 R2"))
    assert lab.dial_crowd(vip(21), 80) == first


def test_affinity_outlives_the_proxy(lab: Lab) -> None:
    begin(lab, sticky("L1 L2 R1"))
    first = lab.dial_crowd(vip(21), 80)
    lab.restart()
    assert lab.dial_crowd(vip(21), 80) == first


def test_affinity_stays_within_the_endpoints_of_a_policy(lab: Lab) -> None:
    begin(lab, sticky("L1 L2 R1 R2", spec=ETP_LOCAL))
    anywhere = lab.dial_crowd(cluster_ip(21), 80)
    here = lab.dial_crowd(vip(21), 80)
    assert set(anywhere) == {"L1", "L2", "R1", "R2"}
    assert set(here) == {"L1", "L2"}
    assert lab.dial_crowd(vip(21), 80) == here
    lab.compare()


@differs("ipvs", reason="each virtual server remembers by itself: test_ipvs_scenarios.py")
@pytest.mark.parametrize("family", Family)
def test_a_node_port_here_only_keeps_who_came_to_an_endpoint_here(
    lab: Lab, family: Family
) -> None:
    """By the cluster IP, whose clients may have any endpoint, and the other way round."""
    begin(lab, sticky("L1 L2 R1 R2", spec=ETP_LOCAL))
    address, own = cluster_ip(21, family), in_family(NODE, family)
    anywhere = lab.dial_crowd(address, 80)
    assert {*anywhere} == {"L1", "L2", "R1", "R2"}
    here = lab.dial_crowd(own, 31080)
    assert_kept(anywhere, here)
    assert lab.dial_crowd(own, 31080) == here
    # Who had one elsewhere has two now; either of them can be chosen for a cluster IP.
    again = lab.dial_crowd(address, 80)
    assert [
        who for who, *known in zip(again, anywhere, here, strict=True) if who not in known
    ] == []
    assert lab.dial_crowd(address, 80) == again
    assert lab.dial_crowd(own, 31080) == here


def assert_kept(anywhere: list[str], here: list[str]) -> None:
    """Clients of an endpoint here have kept it, and all others have got one."""
    assert {*here} == {"L1", "L2"}
    kept = [(a, b) for a, b in zip(anywhere, here, strict=True) if a in {"L1", "L2"}]
    assert [a for a, _ in kept] == [b for _, b in kept]


@differs("ipvs", reason="each virtual server remembers by itself: test_ipvs_scenarios.py")
@pytest.mark.parametrize("family", Family)
def test_endpoints_here_first_then_all(lab: Lab, family: Family) -> None:
    begin(lab, sticky("L1 L2 R1 R2", spec=ETP_LOCAL))
    here = lab.dial_crowd(in_family(NODE, family), 31080)
    assert {*here} == {"L1", "L2"}
    assert lab.dial_crowd(cluster_ip(21, family), 80) == here


@differs("ipvs", reason="a server that cannot be chosen any more loses its clients for good")
@pytest.mark.parametrize("family", Family)
def test_a_policy_that_changes_takes_no_endpoint_away_that_can_be_chosen(
    lab: Lab, family: Family
) -> None:
    begin(lab, sticky("L1 L2 R1 R2"))
    anywhere = lab.dial_crowd(vip(21, family), 80)
    lab.put(*sticky("L1 L2 R1 R2", spec=ETP_LOCAL))
    here = lab.dial_crowd(vip(21, family), 80)
    assert_kept(anywhere, here)
    lab.put(*sticky("L1 L2 R1 R2"))
    again = lab.dial_crowd(vip(21, family), 80)
    assert [
        who for who, *known in zip(again, anywhere, here, strict=True) if who not in known
    ] == []


@differs("userspace", reason="in turn, so clients may get the same endpoints again")
@differs("ipvs", reason="the virtual server of that address stays, with its clients")
@pytest.mark.parametrize("family", Family)
def test_a_new_service_inherits_no_affinity(lab: Lab, family: Family) -> None:
    begin(lab, sticky("L1 L2"))
    first = lab.dial_crowd(cluster_ip(21, family), 80)
    lab.put(*deploy("new", everywhere(21), "L1 L2", PORTS, affinity()))
    assert lab.dial_crowd(cluster_ip(21, family), 80) != first


def test_switching_affinity_on_and_off(lab: Lab) -> None:
    begin(lab, deploy("sticky", everywhere(21), "L1 L2 R1", PORTS))
    lab.compare()
    lab.put(*sticky("L1 L2 R1"))
    lab.compare()
    lab.put(*deploy("sticky", everywhere(21), "L1 L2 R1", PORTS))
    lab.compare()


@differs("userspace", reason="in turn, so clients may get the same endpoints again")
@differs("ipvs", reason="the kernel remembers a client while it remembers a closed connection")
def test_affinity_ends_after_its_timeout(lab: Lab) -> None:
    """New connections keep the memory alive; without them it ends."""
    begin(lab, sticky("L1 L2 L3 R1 R2", seconds=3))
    addresses = [cluster_ip(21, family) for family in Family]
    first = [lab.dial_crowd(address, 80) for address in addresses]
    for _ in range(2):
        time.sleep(1.6)
        assert [lab.dial_crowd(address, 80) for address in addresses] == first
    time.sleep(3.1)
    for address, before in zip(addresses, first, strict=True):
        assert lab.dial_crowd(address, 80) != before
