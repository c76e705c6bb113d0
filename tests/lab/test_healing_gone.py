"""Open connections to pods that left are reset at the client's next packet, and no others.

The endpoints of the lab do not go away: who is not reset gets an answer.
"""

import re
import time

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.program import NftablesSettings
from lab.attempts import POD, WAYS, Attempt
from lab.connection import Connection
from lab.deploy import Address, deploy, everywhere
from lab.healed import PORTS, Healer, healed, healer, of_pods, talks
from lab.listing import KEYWORD
from lab.modes import only
from lab.namespaces import Namespace
from lab.stage import Lab
from world import Document

SECONDS = 60.0

pytestmark = only("nftables", reason="other modes do not heal")


def web(endpoints: str, *, selector: bool = True) -> list[Document]:
    """A healed Service whose endpoints are pods."""
    return healed(of_pods(deploy("web", everywhere(21), endpoints, PORTS), selector=selector))


def connected(kernel: Healer) -> list[Connection]:
    """Each way to both of two endpoints, which come in turn."""
    found = [kernel.connect(way) for way in WAYS for _ in range(2)]
    assert sum(each.answer.who == "R1" for each in found) == len(WAYS)
    return found


def cut_off(connections: list[Connection]) -> set[str]:
    """The endpoints of those that were reset; every connection to these was."""
    kept = {each.answer.who for each in connections if talks(each)}
    lost = {each.answer.who for each in connections} - kept
    assert all(not talks(each) for each in connections if each.answer.who in lost)
    return lost


def test_connections_to_a_pod_that_left_are_reset(kernel: Healer) -> None:
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    assert cut_off(connections) == set()
    kernel.put(web("L1"))
    assert cut_off(connections) == {"R1"}


@pytest.mark.parametrize("endpoint", ["R1:unready", "R1:draining", "R1:stopped"])
def test_a_pod_that_is_still_there_goes_on(kernel: Healer, endpoint: str) -> None:
    """It gets no new connections, and keeps those that it has."""
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    kernel.put(web(f"L1 {endpoint}"))
    assert {each.who for each in kernel.dial(times=2)} == {"L1"}
    assert cut_off(connections) == set()


def test_all_pods_left(kernel: Healer) -> None:
    """There is no other to connect to either, and that is said."""
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    kernel.put(web(""))
    assert cut_off(connections) == {"L1", "R1"}
    assert {each.who for each in kernel.dial()} == {"ECONNREFUSED"}


def test_what_is_no_pod_may_go_on(kernel: Healer) -> None:
    """People drain endpoints that they list by hand: by taking them from the list."""
    documents = deploy("web", everywhere(21), "L1 R1", PORTS)
    kernel.put(healed(documents))
    connections = connected(kernel)
    kernel.put(healed(deploy("web", everywhere(21), "L1", PORTS)))
    assert cut_off(connections) == set()


def test_a_pod_of_another_service_has_not_left(kernel: Healer) -> None:
    """Only when it is in none of them."""
    other = healed(of_pods(deploy("other", Address(22), "R1")))
    kernel.put([*web("L1 R1"), *other])
    connections = connected(kernel)
    kernel.put([*web("L1"), *other])
    assert cut_off(connections) == set()
    kernel.put(web("L1"))
    assert cut_off(connections) == {"R1"}


def test_connections_of_services_that_are_not_healed_go_on(kernel: Healer) -> None:
    """To the same pod, which has left the one that is healed."""
    other = of_pods(deploy("other", Address(22), "R1"))
    kernel.put([*web("L1 R1"), *other])
    connections = connected(kernel)
    beside = kernel.connect(POD, 22)
    kernel.put([*web("L1"), *other])
    assert cut_off(connections) == {"R1"}
    assert talks(beside)


def test_a_pod_that_comes_back_is_served(kernel: Healer) -> None:
    """Connections that said nothing meanwhile go on."""
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    kernel.put(web("L1"))
    kernel.put(web("L1 R1"))
    assert cut_off(connections) == set()
    assert sorted(each.who for each in kernel.dial([POD], 2)) == ["L1", "R1"]


def test_a_restart_forgets_none_of_them(kernel: Healer) -> None:
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    kernel.put(web("L1"))
    assert kernel.plane.restart().written == 0
    assert cut_off(connections) == {"R1"}
    kernel.put(web("L1 R1"))
    assert kernel.dial([POD], 2) == [Attempt("L1"), Attempt("R1")]


@pytest.mark.parametrize("selector", [True, False], ids=["selected", "listed-by-hand"])
def test_pods_that_left_while_nobody_looked(kernel: Healer, selector: bool) -> None:  # a case
    """The kernel has their addresses; that they were pods follows from the Service's selector."""
    kernel.put(web("L1 R1", selector=selector))
    connections = connected(kernel)
    kernel.expect(web("L1", selector=selector))
    assert cut_off(connections) == ({"R1"} if selector else set())


@pytest.mark.parametrize("endpoint", ["R1:unready", "R1:draining", "R1:stopped"])
def test_pods_that_ceased_to_serve_while_nobody_looked(kernel: Healer, endpoint: str) -> None:
    """They are still there."""
    kernel.put(web("L1 R1"))
    connections = connected(kernel)
    kernel.expect(web(f"L1 {endpoint}"))
    assert cut_off(connections) == set()


def gone_endpoints(node: Namespace, family: Family) -> int:
    """How many endpoints the kernel resets connections to."""
    listed = node.run(["nft", "list", "set", KEYWORD[family], "kube-proxy", "gone-endpoints"])
    return len(re.findall(r" expires ", listed))


def test_what_left_is_forgotten_in_time(lab: Lab, family: Family) -> None:
    """An endpoint of that address may be anything by then."""
    lab.stop()
    with healer(lab.network, family, NftablesSettings(gone_seconds=1)) as kernel:
        kernel.put(web("L1 R1"))
        connections = connected(kernel)
        kernel.put(web("L1"))
        deadline = time.monotonic() + SECONDS
        while gone_endpoints(lab.network.node, family):
            assert time.monotonic() < deadline
        assert cut_off(connections) == set()
        # It is not in the kernel any more: what comes back is no error.
        kernel.put(web("L1 R1"))
        assert {each.who for each in kernel.dial(times=2)} == {"L1", "R1"}
