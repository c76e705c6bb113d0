"""iptables mode in another kernel, with SCTP: what the lab tries everywhere, in short.

The kernel is slow and has the legacy programs only; run by `python -m uml`.
"""

from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.linux.tools import Backend
from lab.deploy import mall
from lab.generate import Generator
from lab.network import Network
from lab.pairs import all_pairs
from lab.plan import cluster_ip, external_ip, vip
from lab.programmer import DaemonProcess
from lab.stage import Lab
from lab.test_generated import documents
from lab.test_scenarios import (  # noqa: F401  # run again here
    test_an_external_ip_that_kestrel_has_itself,
    test_everything_goes,
    test_ports_of_a_service_are_apart,
)
from lab.xtables import VARIANTS

CHANGES = 8
PACKETS = 60


@pytest.fixture(scope="module")
def stage(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for all tests of this file."""
    programmer = DaemonProcess(network.node, tmp_path_factory.mktemp("iptables"))
    stage = Lab(network, programmer, VARIANTS[Backend.LEGACY])
    yield stage
    stage.stop()


def test_the_mall(lab: Lab) -> None:
    lab.run(documents=mall())
    lab.compare()


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


@pytest.mark.parametrize("seed", [30, 31])
def test_a_sequence_of_changes(lab: Lab, seed: int) -> None:
    generator = Generator(seed)
    cluster = generator.cluster()
    lab.run(documents=documents(cluster))
    for _ in range(CHANGES):
        lab.compare(generator.choose(PACKETS, all_pairs(lab.expectation())))
        _, cluster = generator.change(cluster)
        lab.put(*documents(cluster))
    lab.compare(generator.choose(PACKETS, all_pairs(lab.expectation())))
