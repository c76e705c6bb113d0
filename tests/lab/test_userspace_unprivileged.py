"""The daemon without any right: node ports and places that are mapped, served by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab import confined
from lab.deploy import UDP, Port, deploy, everywhere
from lab.dialer import Dialer
from lab.documents import kestrel, service_cidr
from lab.network import Network
from lab.outcome import Fate, Outcome, Probe
from lab.plan import HOSTS, cluster_ip
from lab.programmer import DaemonProcess
from lab.relayed import settle
from world import NODE_IP, Document

PORTS = [Port(node_port=31180), Port(53, 53, 31181, UDP)]
FLAGS = (
    "--proxy-mode=userspace",
    "--userspace-port-map=127.0.0.1:8099=mall/cart:80,[::1]:8099=mall/cart:80",
)


@pytest.fixture
def daemon(network: Network, tmp_path: Path) -> Iterator[DaemonProcess]:
    opened = DaemonProcess(network.node, tmp_path, confined.through((), [str(tmp_path)]))
    yield opened
    opened.stop()


def documents(endpoints: str) -> list[Document]:
    return [kestrel(), service_cidr(), *deploy("cart", everywhere(21), endpoints, PORTS)]


def dial(
    network: Network, source: str, address: str, port: int, protocol: Protocol = Protocol.TCP
) -> Outcome:
    family = Family.IPV6 if ":" in address else Family.IPV4
    probe = Probe(source, HOSTS[source].address(family), address, port, protocol)
    return Dialer(network, settle).dial([probe])[0]


def test_a_daemon_without_rights_serves_node_ports_and_what_is_mapped(
    network: Network, daemon: DaemonProcess
) -> None:
    with network.on_one_cpu():
        daemon.start(FLAGS, documents("L1"))
    for family in Family:
        address = NODE_IP[family]
        assert dial(network, "X", address, 31180).who == "L1"
        assert dial(network, "X", address, 31181, Protocol.UDP).who == "L1"
        loopback = "127.0.0.1" if family is Family.IPV4 else "::1"
        assert dial(network, "LO", loopback, 8099).who == "L1"
        assert dial(network, "X", cluster_ip(21, family), 80).who == "W"
    assert "Rules cannot be written" in daemon.log()
    daemon.put(documents(""))
    assert dial(network, "X", NODE_IP[Family.IPV4], 31180).fate is Fate.REFUSED
    daemon.put(documents("R1"))
    assert dial(network, "X", NODE_IP[Family.IPV4], 31180).who == "R1"
