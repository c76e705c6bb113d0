"""Established connections take the fast path, and only those that should."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.connection import Connection, Flow
from lab.deploy import TCP, UDP, Port, deploy, everywhere
from lab.documents import in_family
from lab.modes import only
from lab.offloaded import (
    is_offloaded,
    need_flowtables,
    run_with_fast_path,
    talk,
)
from lab.plan import HOSTS, cluster_ip, vip
from lab.stage import Lab
from world import Document

NODE = "198.51.100.10"
TCP_PORT, UDP_PORT = 80, 53
PORTS = (Port(node_port=31080), Port(UDP_PORT, UDP_PORT, 31081, UDP))
WAYS = ("cluster IP", "node port", "load balancer")
FAMILIES = pytest.mark.parametrize("family", Family)
PROTOCOLS = pytest.mark.parametrize("protocol", [TCP, UDP], ids=["tcp", "udp"])

pytestmark = only("nftables", reason="other modes have no fast path")


@pytest.fixture(autouse=True)
def _flowtables(lab: Lab) -> None:
    need_flowtables(lab.network.node)


def web(endpoints: str = "L1") -> list[Document]:
    return deploy("web", everywhere(21), endpoints, PORTS)


def dialled(lab: Lab, way: str, family: Family, protocol: Protocol) -> Connection | Flow:
    """A connection through the Service, from a pod or from outside."""
    port = UDP_PORT if protocol is UDP else TCP_PORT
    to = {
        "cluster IP": ("P", cluster_ip(21, family), port),
        "node port": ("X", in_family(NODE, family), 31081 if protocol is UDP else 31080),
        "load balancer": ("X", vip(21, family), port),
    }[way]
    return lab.flow(*to) if protocol is UDP else lab.connect(*to)


@FAMILIES
@PROTOCOLS
def test_translated_connections_leave_the_rules(
    lab: Lab, family: Family, protocol: Protocol
) -> None:
    """Whatever address the client dials; after so many packets and not before."""
    run_with_fast_path(lab, documents=web())
    node = lab.network.node
    for way in WAYS:
        opened = dialled(lab, way, family, protocol)
        talk(opened, 10)
        assert not is_offloaded(node, family, protocol, opened.sent_from), way
        talk(opened)
        assert is_offloaded(node, family, protocol, opened.sent_from), way


@FAMILIES
def test_what_is_not_translated_meets_the_rules(lab: Lab, family: Family) -> None:
    """Pods that dial each other, and what the node itself sends."""
    run_with_fast_path(lab, documents=web())
    node = lab.network.node
    direct = lab.connect("P", HOSTS["L1"].address(family), 8080)
    own = lab.connect("H", cluster_ip(21, family), TCP_PORT)
    for opened in (direct, own):
        talk(opened)
        assert not is_offloaded(node, family, TCP, opened.sent_from)
