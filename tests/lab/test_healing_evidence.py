"""What packets leave behind when connections fail is read back: who was failed, where, by whom."""

import asyncio

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.failures import Endpoint, Failure, Reason
from kubeproxy.dataplane.nftables.evidence import Evidence
from kubeproxy.dataplane.nftables.healing import GROUPS
from kubeproxy.dataplane.nftables.program import program
from kubeproxy.linux.nflog import LogGroup
from kubeproxy.table.entries import FrontendKey
from lab.attempts import HOST, NODE, OUTSIDE_TO_NODE, POD
from lab.deploy import deploy, everywhere
from lab.documents import in_family
from lab.failures import IS_SILENT, REFUSES, failing
from lab.healed import NODE_PORT, NUMBER, PORTS, Healer, healed, of_pods, talks
from lab.modes import only
from lab.plan import HOSTS, cluster_ip

pytestmark = only("nftables", reason="other modes do not heal")


class Reader:
    """Evidence of the plane's family."""

    def __init__(self, kernel: Healer) -> None:
        self._kernel = kernel
        node, settings = kernel.plane.node, kernel.plane.settings
        self._program = program(node, settings, heals=True)
        self.evidence = Evidence(kernel.family, lambda: self._program)

    def read(self) -> set[Failure]:
        with self._kernel.network.node.entered():
            return set(self.evidence.read(self._program))


def failure(kernel: Healer, reason: Reason, client: str, endpoint: str, times: int = 1) -> Failure:
    family = kernel.family
    to = FrontendKey(cluster_ip(NUMBER, family), Protocol.TCP, 80)
    at = Endpoint(HOSTS[endpoint].address(family), 8080)
    return Failure(reason, HOSTS[client].address(family), to, at, times)


def test_who_was_refused_by_whom(kernel: Healer) -> None:
    kernel.put(healed(deploy("web", everywhere(NUMBER), "L1 R1", PORTS)))
    reader = Reader(kernel)
    _, last = kernel.turn()
    with failing(kernel.network, REFUSES, last) as failures:
        kernel.dial([POD], times=2)
        assert reader.read() == {failure(kernel, Reason.REFUSED, "P", last)}
        assert reader.read() == set()
        kernel.dial([POD], times=4)
        since = failures[last].count - 1
        assert reader.read() == {failure(kernel, Reason.REFUSED, "P", last, since)}


def test_a_node_port_is_named_by_the_address_that_was_dialled(kernel: Healer) -> None:
    kernel.put(healed(deploy("web", everywhere(NUMBER), "L1 R1", PORTS)))
    reader = Reader(kernel)
    with failing(kernel.network, REFUSES, "L1", "R1"):
        kernel.dial([OUTSIDE_TO_NODE])
    address = in_family(NODE, kernel.family)
    assert {each.destination for each in reader.read()} == {
        FrontendKey(address, Protocol.TCP, NODE_PORT)
    }


def test_who_got_no_answer_from_whom(kernel: Healer) -> None:
    kernel.put(healed(deploy("web", everywhere(NUMBER), "L1 R1", PORTS)))
    reader = Reader(kernel)
    _, last = kernel.turn()
    with failing(kernel.network, IS_SILENT, last):
        kernel.dial([HOST], times=2)
        found = reader.read()
    (silent,) = found
    assert (silent.reason, silent.times) == (Reason.UNANSWERED, 1)
    assert silent.destination == FrontendKey(cluster_ip(NUMBER, kernel.family), Protocol.TCP, 80)


def test_who_was_reset_and_the_entry_of_the_connection_is_gone(kernel: Healer) -> None:
    kernel.put(of_pods(healed(deploy("web", everywhere(NUMBER), "L1", PORTS))))
    reader = Reader(kernel)
    opened = kernel.connect(POD)
    assert talks(opened)
    kernel.put(of_pods(healed(deploy("web", everywhere(NUMBER), "R1", PORTS))))
    assert not talks(opened)
    assert reader.read() == {failure(kernel, Reason.GONE, "P", "L1")}
    listed = kernel.network.node.run(["conntrack", "-L", "-p", "tcp", "--dport", "80"])
    assert cluster_ip(NUMBER, kernel.family) not in listed


def test_the_rules_notify(kernel: Healer) -> None:
    kernel.put(healed(deploy("web", everywhere(NUMBER), "L1 R1", PORTS)))
    with kernel.network.node.entered():
        group = LogGroup(GROUPS[kernel.family])
    with group, failing(kernel.network, REFUSES, "L1", "R1"):
        kernel.dial([POD])
        asyncio.run(asyncio.wait_for(group.wait(), 10))
