"""Connections that exist: TCP goes on whatever happens; datagrams leave whoever is gone."""

import re
import signal
import time
from collections.abc import Iterable

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.connection import Flow
from lab.deploy import ETP_LOCAL, UDP, Address, Port, deploy, everywhere, mall
from lab.documents import in_family
from lab.modes import differs
from lab.outcome import Fate
from lab.plan import HAS_SCTP, cluster_ip, external_ip, vip
from lab.stage import Lab

NODE = "198.51.100.10"
_REMARKS = re.compile(r"^#.*\n|\[\d+:\d+\]", re.MULTILINE)
"""Of iptables-save: the time, and counters of chains."""
PORTS = (Port(node_port=31080), Port(53, 53, 31081, UDP))


@differs("userspace", reason="they end with the process they go through: test_userspace_daemon.py")
@differs("ipvs", reason="connections end with their virtual server: test_ipvs_scenarios.py")
def test_tcp_goes_on_whatever_happens(lab: Lab) -> None:
    lab.run(documents=mall())
    connections = [
        lab.connect(source, address, 80)
        for source in ("P", "L1", "H", "X", "Q")
        for family in Family
        for address in (cluster_ip(21, family), vip(23, family), external_ip(24, family))
    ]
    connections += [lab.connect(s, in_family(NODE, f), 31080) for s in "PX" for f in Family]

    def talk() -> None:
        for connection in connections:
            connection.talk()

    talk()
    lab.put(*deploy("cart", everywhere(21), "R2", PORTS))
    talk()
    lab.restart()
    talk()
    lab.restart(signal.SIGKILL)
    talk()
    lab.put()
    talk()
    lab.put(*mall())
    talk()


@differs("ipvs", reason="connections end with their virtual server")
@pytest.mark.skipif(not HAS_SCTP, reason="this kernel has no SCTP")
@pytest.mark.sctp
def test_connections_of_sctp_go_on(lab: Lab) -> None:
    lab.run(documents=mall())
    connections = [
        lab.connect(source, address, 81, Protocol.SCTP)
        for source in ("P", "H", "X")
        for family in Family
        for address in (cluster_ip(38, family), vip(38, family), external_ip(37, family))
    ]
    lab.put()
    lab.restart()
    for connection in connections:
        connection.talk()


@differs("userspace", reason="its listeners end with it, and new ones have other ports")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_writes_nothing(lab: Lab, number: signal.Signals) -> None:
    """Where the listing has handles, nothing was even replaced by its like."""
    lab.stop()
    lab.run(documents=mall())
    before = but_pulse(lab.rules())
    lab.restart(number)
    assert before == but_pulse(lab.rules())


def but_pulse(rules: str) -> set[str]:
    """The pieces of a rule set, without those of the service that changes with every put."""
    ours = (cluster_ip(255), cluster_ip(255, Family.IPV6))
    pieces = re.split(r", |,?\n|elements = {", _REMARKS.sub("", rules))
    return {piece.strip(" \t}") for piece in pieces if not any(a in piece for a in ours)}


def answerers(flows: Iterable[Flow]) -> set[str]:
    """Who answers one more datagram of each flow, or what becomes of it instead."""
    outcomes = [flow.ask() for flow in flows]
    return {outcome.who or outcome.fate.value for outcome in outcomes}


def eventually(expected: str, flows: Iterable[Flow]) -> None:
    """Flows are cleaned up beside the syncs: all of them get there in a moment.

    Nothing flies in that moment: an answer that meets the deletion of its flow makes it again.
    """
    deadline = time.monotonic() + 30.0
    found: set[str] = set()
    while found != {expected}:
        assert time.monotonic() < deadline, f"expected {expected}, found {found}"
        time.sleep(0.05)
        found = answerers(flows)


def flows_to(lab: Lab, family: Family) -> list[Flow]:
    return [
        lab.flow(source, address, port)
        for source in ("P", "H", "X")
        for address, port in (
            (cluster_ip(21, family), 53),
            (vip(21, family), 53),
            (external_ip(21, family), 53),
            (in_family(NODE, family), 31081),
        )
    ]


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("gone", ["", "R1:stopped"], ids=["removed", "not-serving"])
def test_datagrams_leave_an_endpoint_that_is_gone(lab: Lab, family: Family, gone: str) -> None:
    lab.run(documents=deploy("dns", everywhere(21), "R1", PORTS))
    flows = flows_to(lab, family)
    assert answerers(flows) == {"R1"}
    lab.put(*deploy("dns", everywhere(21), f"L1 {gone}", PORTS))
    eventually("L1", flows)


@differs("userspace", reason="a client that was idle for udpIdleTimeout gets the next endpoint")
@differs("ipvs", reason="UDP endpoints are removed at once, also those that drain: docs/ipvs.md")
@pytest.mark.parametrize("family", Family)
def test_datagrams_stay_with_an_endpoint_that_still_serves(lab: Lab, family: Family) -> None:
    lab.run(documents=deploy("dns", everywhere(21), "R1 R2", PORTS))
    flows = flows_to(lab, family)
    serving = [flow.ask().who for flow in flows]
    lab.put(*deploy("dns", everywhere(21), "L1 R1:draining R2", PORTS))
    lab.put(*deploy("dns", everywhere(21), "L1 L2 L3 R1:draining R2:draining", PORTS))
    assert [flow.ask().who for flow in flows] == serving


@differs("iptables", reason="not from the node to external addresses: test_iptables_scenarios.py")
@pytest.mark.parametrize("family", Family)
def test_datagrams_to_a_service_without_endpoints_are_refused(lab: Lab, family: Family) -> None:
    lab.run(documents=deploy("dns", everywhere(21), "R1", PORTS))
    flows = flows_to(lab, family)
    assert answerers(flows) == {"R1"}
    lab.put(*deploy("dns", everywhere(21), "", PORTS))
    eventually(Fate.UNREACHABLE.value, flows)
    lab.put(*deploy("dns", everywhere(21), "L2", PORTS))
    eventually("L2", flows)


@pytest.mark.parametrize("family", Family)
def test_a_flow_that_was_before_the_service_is_served(lab: Lab, family: Family) -> None:
    lab.run(documents=deploy("other", Address(22), "L1"))
    flow = lab.flow("P", vip(21, family), 53)
    assert flow.ask().who == "W"
    lab.put(*deploy("dns", everywhere(21), "R1", PORTS, ETP_LOCAL))
    eventually("R1", [flow])
