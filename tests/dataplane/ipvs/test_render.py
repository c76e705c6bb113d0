"""The plan as text: line by line what upstream leaves in a kernel with the same services."""

from pathlib import Path

import pytest

from dataplane.ipvs import example
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.plan import PlanSetup, Server, plan
from kubeproxy.dataplane.ipvs.render import describe, describe_some, server_lines
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.linux.netlink.ipvs import PERSISTENT, SOURCE_PORT, ServerKey, VirtualServer
from world import endpoint_slice, everywhere, table_of

GOLDEN = Path(__file__).with_name("golden")


def described(family: Family) -> dict[str, str]:
    """The parts of the text by what their headings name."""
    text = describe(example.table(family), example.node(family), IpvsSettings())
    parts = (part.partition("\n") for part in text.split("# ")[1:])
    return {heading: body for heading, _, body in parts}


def golden(name: str) -> str:
    return (GOLDEN / f"example.{name}").read_text()


@pytest.mark.parametrize("family", Family)
def test_virtual_servers(family: Family) -> None:
    assert golden(f"{family.value}.servers") == described(family)["ipvsadm -S -n"]


@pytest.mark.parametrize("family", Family)
def test_members(family: Family) -> None:
    lines = described(family)["ipset save"].splitlines()
    added = sorted(line for line in lines if line.startswith("add "))
    assert sorted(golden(f"{family.value}.members").splitlines()) == added
    assert sum(line.startswith("create ") for line in lines) == 17


def test_addresses() -> None:
    assert described(Family.IPV6)["ip addr show kube-ipvs0"] == (
        "inet6 fd00:10:96::5001/128 scope global kube-ipvs0\n"
        "inet6 fd00:10:96::5002/128 scope global kube-ipvs0\n"
    )


def test_flags_of_servers() -> None:
    key = ServerKey(Protocol.SCTP, "fd12::21", 80)
    virtual = VirtualServer("mh", PERSISTENT | SOURCE_PORT, 600)
    assert list(server_lines({key: Server(virtual)})) == [
        "-A --sctp-service [fd12::21]:80 -s mh -p 600 -b mh-port\n"
    ]


def test_rules() -> None:
    assert golden("IPv4.tables") == described(Family.IPV4)["iptables-save"]


@pytest.mark.parametrize(
    "node_ports", [(), ("198.51.100.10",)], ids=["without-node-ports", "with-node-ports"]
)
def test_what_a_service_port_has_in_the_kernel(node_ports: tuple[str, ...]) -> None:
    (entry,) = table_of(everywhere(), endpoint_slice("L1 R1")).entries.values()
    part = plan(entry, PlanSetup(node_port_addresses=node_ports))
    text = describe_some([part], Family.IPV4)
    assert "-A -t 10.112.0.21:80 -s rr\n-a -t 10.112.0.21:80 -r 10.64.3.11:8080 -m -w 1\n" in text
    assert "add KUBE-CLUSTER-IP 10.112.0.21,tcp:80\n" in text
    assert ("-A -t 198.51.100.10:31080 -s rr\n" in text) == bool(node_ports)


def test_no_service_port_has_nothing() -> None:
    assert describe_some([], Family.IPV4) == ""
