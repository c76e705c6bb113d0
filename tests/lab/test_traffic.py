"""Connections are counted as they are made, and stay counted; the rules can be read."""

import json
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import UDP, Port, deploy, everywhere
from lab.documents import in_family
from lab.listing import KEYWORD, blocks, list_table
from lab.modes import only
from lab.page import ask, connections, samples
from lab.plan import HOSTS, cluster_ip, external_ip, vip
from lab.stage import Lab
from world import Document

pytestmark = only("nftables", reason="the tools and pages are the same in every mode")

PORTS = (Port(node_port=31080), Port(53, 53, 31081, UDP))
KINDS = ("cluster-ip", "load-balancer", "external-ip", "node-port")
PATIENCE = 60.0

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T) -> None:
    """A reading serves all who ask within a second: what is new comes with the next."""
    deadline = time.monotonic() + PATIENCE
    while (found := look()) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, found {found}"
        time.sleep(0.05)


def begin(lab: Lab, name: str, *flags: str, endpoints: str = "L1 R1") -> list[Document]:
    """A service that no client has dialled yet."""
    documents = deploy(name, everywhere(21), endpoints, PORTS)
    lab.run(*flags)
    lab.put()
    lab.put(*documents)
    return documents


def targets(family: Family, protocol: Protocol) -> dict[str, tuple[str, int]]:
    port, node_port = (80, 31080) if protocol is Protocol.TCP else (53, 31081)
    return {
        "cluster-ip": (cluster_ip(21, family), port),
        "load-balancer": (vip(21, family), port),
        "external-ip": (external_ip(21, family), port),
        "node-port": (in_family(HOSTS["H"].ipv4, family), node_port),
    }


def dial(lab: Lab, family: Family, protocol: Protocol, times: Mapping[str, int]) -> None:
    """Make so many connections to each kind of frontend, from a pod, the host and outside."""
    for kind, count in times.items():
        for number in range(count):
            source = ("P", "H", "X")[number % 3]
            outcome = lab.dial(source, *targets(family, protocol)[kind], protocol)
            assert outcome.who, f"{source} to {kind}: {outcome}"


def counted(lab: Lab, name: str, family: Family) -> dict[tuple[str, ...], float]:
    return connections(lab.network.node, name, family, ("protocol", "frontend"))


def expected(tcp: Mapping[str, int], udp: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {
        (protocol, kind): float(times.get(kind, 0))
        for protocol, times in (("TCP", tcp), ("UDP", udp))
        for kind in KINDS
    }


def by_cluster_ip(lab: Lab, name: str, family: Family) -> float:
    return counted(lab, name, family).get(("TCP", "cluster-ip"), -1.0)


@pytest.mark.parametrize("family", Family)
def test_every_frontend_counts_each_connection_once(lab: Lab, family: Family) -> None:
    name = f"counted-{family.value.lower()}"
    begin(lab, name)
    tcp = dict(zip(KINDS, (5, 4, 3, 6), strict=True))
    udp = dict(zip(KINDS, (2, 3, 4, 7), strict=True))
    dial(lab, family, Protocol.TCP, tcp)
    dial(lab, family, Protocol.UDP, udp)
    eventually(lambda: counted(lab, name, family), expected(tcp, udp))
    eventually(lambda: counted(lab, name, family.other), expected({}, {}))


def test_many_packets_are_one_connection(lab: Lab) -> None:
    begin(lab, "chatty")
    connection = lab.connect("P", cluster_ip(21), 80)
    flow = lab.flow("P", cluster_ip(21), 53)
    for _ in range(20):
        connection.talk()
        assert flow.ask().who
    one = expected({"cluster-ip": 1}, {"cluster-ip": 1})
    eventually(lambda: counted(lab, "chatty", Family.IPV4), one)


@pytest.mark.parametrize("family", Family)
def test_counts_outlive_endpoints_and_the_proxy(lab: Lab, family: Family) -> None:
    name = f"lasting-{family.value.lower()}"
    begin(lab, name)
    dial(lab, family, Protocol.TCP, {"cluster-ip": 4})
    lab.put(*deploy(name, everywhere(21), "R1", PORTS))
    dial(lab, family, Protocol.TCP, {"cluster-ip": 3})
    lab.put(*deploy(name, everywhere(21), "L1 L2 R1 R2", PORTS))
    dial(lab, family, Protocol.TCP, {"cluster-ip": 2})
    eventually(lambda: by_cluster_ip(lab, name, family), 9.0)
    lab.restart()
    eventually(lambda: by_cluster_ip(lab, name, family), 9.0)
    dial(lab, family, Protocol.TCP, {"cluster-ip": 1})
    eventually(lambda: by_cluster_ip(lab, name, family), 10.0)


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(
    ("script", "afterwards"),
    [
        pytest.param("delete table {ip} kube-proxy", 7, id="table-deleted"),
        pytest.param("flush ruleset", 7, id="everything-flushed"),
        pytest.param("flush set {ip} kube-proxy service-connections", 2, id="counters-flushed"),
    ],
)
def test_what_was_counted_stays_when_others_flush(
    lab: Lab, family: Family, script: str, afterwards: int
) -> None:
    """More than before after the table is new, as its number shows; less where only that shows."""
    # Each has a name of its own: what comes back between two scrapes goes on where it was.
    verb, what, *_ = script.split()
    name = f"{verb}-{what}-{family.value.lower()}"
    begin(lab, name)
    dial(lab, family, Protocol.TCP, {"cluster-ip": 4})
    eventually(lambda: by_cluster_ip(lab, name, family), 4.0)
    seen = [4.0]
    lab.network.node.run(["nft", script.format(ip=KEYWORD[family])])
    eventually(lambda: is_there(lab, family), True)
    dial(lab, family, Protocol.TCP, {"cluster-ip": afterwards})

    def look() -> float:
        seen.append(by_cluster_ip(lab, name, family))
        return seen[-1]

    eventually(look, 4.0 + afterwards)
    assert seen == sorted(seen)


def is_there(lab: Lab, family: Family) -> bool:
    """Whether the frontend is programmed, its counter included."""
    try:
        found = blocks(list_table(lab.network.node, family))
    except AssertionError:  # there is no table
        return False
    frontend = f"{cluster_ip(21, family)} . tcp . 80 "
    needed = ("set service-connections", "map service-choices", "chain frontends")
    return all(name in found for name in needed) and all(
        any(line.startswith(frontend) for line in found[name]) for name in needed[:2]
    )


def test_what_goes_is_shown_no_more(lab: Lab) -> None:
    begin(lab, "leaving")
    eventually(lambda: len(counted(lab, "leaving", Family.IPV4)), 8)
    lab.put()
    eventually(lambda: len(counted(lab, "leaving", Family.IPV4)), 0)


def test_endpoints_count_when_asked_to(lab: Lab) -> None:
    begin(lab, "detailed", "--nftables-endpoint-counters", endpoints="L1 L2 R1")

    def by_endpoint() -> dict[str, float]:
        _, text = ask(lab.network.node, "/metrics")
        return {
            labels["endpoint"]: value
            for labels, value in samples(text, "kubeproxy_endpoint_connections_total")
            if labels["ip_family"] == "IPv4" and labels["protocol"] == "TCP"
        }

    def place(name: str) -> str:
        return f"{HOSTS[name].ipv4}:8080"

    answers: dict[str, int] = dict.fromkeys(map(place, ("L1", "L2", "R1")), 0)

    def call(count: int) -> None:
        for _ in range(count):
            who = lab.dial("P", cluster_ip(21), 80).who
            answers[place(who)] += 1

    call(20)
    eventually(by_endpoint, {name: float(count) for name, count in answers.items()})
    # The last takes the place of the first: its counter begins again, and its total goes on.
    lab.put(*deploy("detailed", everywhere(21), "L2 R1", PORTS))
    del answers[place("L1")]
    call(20)
    eventually(by_endpoint, {name: float(count) for name, count in answers.items()})


def test_too_many_series_are_shown_by_service(lab: Lab) -> None:
    begin(lab, "merged", "--traffic-series-limit=3")
    dial(lab, Family.IPV4, Protocol.TCP, {"cluster-ip": 2, "node-port": 1})
    dial(lab, Family.IPV6, Protocol.UDP, {"cluster-ip": 2})

    def look() -> list[tuple[dict[str, str], float]]:
        _, text = ask(lab.network.node, "/metrics")
        found = samples(text, "kubeproxy_service_connections_total")
        return sorted(found, key=lambda sample: sample[0]["service"])

    eventually(
        look,
        [
            ({"namespace": "mall", "service": "merged"}, 5.0),
            ({"namespace": "lab", "service": "pulse"}, 0.0),
        ],
    )


# --- the rules --------------------------------------------------------------------------------


def test_the_rules_of_a_service_that_was_just_added(lab: Lab) -> None:
    begin(lab, "novel")
    status, text = ask(lab.network.node, "/rules/mall/novel")
    assert status == 200
    assert "mall/novel:tcp-80  TCP, IPv4, internalTrafficPolicy Cluster" in text
    assert "mall/novel:udp-53  UDP, IPv6, internalTrafficPolicy Cluster" in text
    written = [line for line in text.splitlines() if line.startswith("add ")]
    vip_element = f"add element ip kube-proxy service-choices {{ {vip(21)} . tcp . 80 : 0:"
    assert any(line.startswith(vip_element) for line in written)
    assert any(line.startswith("add element ip6 kube-proxy service-end") for line in written)
    assert "\nchain pick-2 {\n" in text
    # nft takes every word of it: it is there already, with the same data.
    before = lab.rules()
    lab.network.node.run(["nft", "-f", "-"], stdin="\n".join(written))
    assert _without_counts(before) == _without_counts(lab.rules())


def _without_counts(listing: str) -> list[str]:
    words = listing.replace(",", " ").split()
    return sorted(word for word in words if not word.isdigit())


def test_all_rules_and_those_of_no_service(lab: Lab) -> None:
    begin(lab, "novel")
    node = lab.network.node
    status, text = ask(node, "/rules")
    assert status == 200
    assert "mall/novel:tcp-80" in text
    assert "lab/pulse:pulse" in text
    status, text = ask(node, "/rules/mall/novl")
    assert (status, "namespace mall has: novel" in text) == (404, True)
    _, text = ask(node, "/rules", headers={"Accept": "application/json"})
    ports = json.loads(text)["servicePorts"]
    assert {"novel", "pulse"} == {port["service"] for port in ports}


def test_only_this_host_reads_the_rules_by_default(lab: Lab) -> None:
    address = HOSTS["H"].ipv4
    outside = lab.network.namespaces[HOSTS["X"].namespace]
    begin(lab, "novel", "--metrics-bind-address=0.0.0.0:10249")
    status, text = ask(outside, "/rules", address)
    assert (status, "--rules-page=all" in text) == (403, True)
    assert ask(outside, "/metrics", address)[0] == 200
    # The node's own address is no loopback address: who comes by it might be anybody.
    assert ask(lab.network.node, "/rules", address)[0] == 403
    assert ask(lab.network.node, "/rules")[0] == 200
    begin(lab, "novel", "--metrics-bind-address=0.0.0.0:10249", "--rules-page=all")
    assert ask(outside, "/rules", address)[0] == 200
    begin(lab, "novel", "--rules-page=none")
    assert ask(lab.network.node, "/rules")[0] == 404
