"""Connections of virtual servers; in a kernel that has them."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import deploy, everywhere
from lab.page import ask
from lab.stage import Lab
from lab.test_traffic import PORTS, begin, by_cluster_ip, counted, dial, eventually


@pytest.mark.parametrize("family", Family)
def test_virtual_servers_count_and_their_counts_stay(lab: Lab, family: Family) -> None:
    name = f"counted-{family.value.lower()}"
    begin(lab, name)
    times = {"cluster-ip": 5, "load-balancer": 4, "external-ip": 3, "node-port": 6}
    dial(lab, family, Protocol.TCP, times)
    dial(lab, family, Protocol.UDP, {"cluster-ip": 2})

    def tcp() -> dict[str, float]:
        found = counted(lab, name, family)
        return {kind: value for (protocol, kind), value in found.items() if protocol == "TCP"}

    eventually(tcp, {kind: float(count) for kind, count in times.items()})
    assert counted(lab, name, family)["UDP", "cluster-ip"] == 2.0
    lab.put(*deploy(name, everywhere(21), "R1", PORTS))
    lab.restart()
    dial(lab, family, Protocol.TCP, {"cluster-ip": 1})
    eventually(lambda: by_cluster_ip(lab, name, family), 6.0)


def test_the_rules_are_those_of_ipvsadm(lab: Lab) -> None:
    begin(lab, "novel")
    status, text = ask(lab.network.node, "/rules/mall/novel")
    assert status == 200
    lines = set(text.splitlines())
    listed = lab.rules().splitlines()
    shown = {line for line in lines if line.startswith(("-A ", "-a "))}
    assert shown
    assert shown <= set(listed)
