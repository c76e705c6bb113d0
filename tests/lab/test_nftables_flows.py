"""Datagrams from a port that stays the same, which the kernel takes for one connection."""

import statistics
import time
from collections.abc import Iterable
from itertools import islice

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.connection import Flow
from lab.deploy import UDP, Port, deploy, everywhere
from lab.documents import in_family
from lab.generations import Generations
from lab.outcome import Fate
from lab.plan import HOSTS, cluster_ip, external_ip, vip
from lab.stage import Lab
from lab.test_conntrack import many
from world import Document

FLOWS = 100_000
PORT = Port(5300, 53, 31099, UDP)
"""Where nothing else listens.

An answer of another host that is under way while the flow is forgotten would make a new flow,
from there to the client, and the kernel would keep to that one.
"""


def dns(endpoints: str) -> list[Document]:
    return deploy("dns", everywhere(21), endpoints, [PORT])


def flows_to(lab: Lab, family: Family) -> list[Flow]:
    """From a pod, the host and outside, to every kind of frontend."""
    node_port = (in_family(HOSTS["H"].ipv4, family), PORT.node_port)
    addresses = [each(21, family) for each in (cluster_ip, vip, external_ip)]
    return [
        lab.flow(source, *target)
        for source in ("P", "H", "X")
        for target in (*((address, PORT.number) for address in addresses), node_port)
    ]


def answers(flows: Iterable[Flow]) -> set[str]:
    """Who answers one more datagram of each flow, or what becomes of it instead."""
    outcomes = [flow.ask() for flow in flows]
    return {outcome.who or outcome.fate.value for outcome in outcomes}


def wait_answers(flows: Iterable[Flow], expected: set[str]) -> None:
    """Flows are cleaned up beside the syncs: a moment later."""
    deadline = time.monotonic() + 20.0
    while (found := answers(flows)) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, found {found}"


@pytest.mark.parametrize("family", Family)
def test_a_flow_follows_its_service(lab: Lab, family: Family) -> None:
    """To another endpoint, to none, to one again, and to a service that is made again."""
    lab.run(documents=dns("R1"))
    flows = flows_to(lab, family)
    assert answers(flows) == {"R1"}
    lab.put(*dns("L1"))
    wait_answers(flows, {"L1"})
    lab.put(*dns(""))
    wait_answers(flows, {Fate.UNREACHABLE.value})
    lab.put(*dns("L2"))
    wait_answers(flows, {"L2"})
    lab.put()
    # No host has the cluster IP; the owners of the other addresses do not listen.
    wait_answers(flows, {Fate.SILENT.value, Fate.UNREACHABLE.value})
    lab.put(*dns("R2"))
    wait_answers(flows, {"R2"})


def sync_seconds(lab: Lab) -> float:
    """How long it takes from the file to the kernel's last family: the median of some."""
    found = []
    for number in range(8):
        with Generations(lab.network.node) as generations:
            begun = time.monotonic()
            lab.put(*dns("L1 R1" if number % 2 else "L1"))
        found.append(generations.seen[-1].at - begun)
    return statistics.median(found)


def test_a_hundred_thousand_flows_hold_up_no_sync(lab: Lab) -> None:
    """They are gone through after every sync, because an endpoint went; syncs do not wait."""
    lab.run(documents=dns("L1"))
    without = sync_seconds(lab)
    requests = many(FLOWS)
    with lab.network.node.entered():
        link = Nfnetlink()
    with link:
        while chunk := list(islice(requests, 500)):
            link.send(b"".join(chunk), "cannot make flows")
            assert list(link.received()) == []
    among_many = sync_seconds(lab)
    print(f"a sync takes {without:.3f} s, among {FLOWS} flows {among_many:.3f} s")  # noqa: T201
    assert among_many < without + 0.25
    flow = lab.flow("P", cluster_ip(21), PORT.number)
    lab.put(*dns("L1"))
    assert flow.ask().who == "L1"
    lab.put(*dns("L2"))
    wait_answers([flow], {"L2"})
