"""How often a connection is retried, and among which endpoints."""

import time
from typing import cast

import pytest

from lab.attempts import HOST, OUTSIDE, OUTSIDE_TO_NODE, POD, WAYS, Attempt, Way
from lab.deploy import ETP_LOCAL, ITP_LOCAL, Port, deploy, everywhere
from lab.failures import REFUSES, failing
from lab.healed import NODE_PORT, PORTS, Healer, healed
from lab.listing import KEYWORD
from lab.modes import only
from lab.plan import cluster_ip
from world import Document

SECONDS = 60.0
FOUR = "L1 L2 R1 R2"
NOBODY = 8082
"""A port on which nobody listens."""
REFUSED_AT_ONCE = Attempt("ECONNREFUSED")
REFUSED_TWICE = Attempt("ECONNREFUSED", 1)
OUTSIDE_WAYS = (OUTSIDE, OUTSIDE_TO_NODE)

pytestmark = only("nftables", reason="other modes do not heal")


# --- how often --------------------------------------------------------------------------------


def test_a_connection_is_retried_three_times_while_others_are_answered(kernel: Healer) -> None:
    """Each connection has its own count."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    kernel.answering()
    with failing(kernel.network, REFUSES, *FOUR.split()) as failures:
        assert kernel.dial(times=2) == [Attempt("ECONNREFUSED", 3)] * 8
    assert sum(each.count for each in failures.values()) == 8 * 4


def test_the_second_retry_reaches_the_third_endpoint(kernel: Healer) -> None:
    """Others are answered, so it is worth a try."""
    kernel.put(healed(deploy("web", everywhere(21), "L1 L2 R1", PORTS)))
    *others, last = kernel.turn()
    with failing(kernel.network, REFUSES, *others):
        assert kernel.dial([POD]) == [REFUSED_TWICE]
        kernel.answering()
        assert kernel.dial([POD, POD]) == [Attempt(last), Attempt(last, 2)]


def test_who_is_answered_says_so(kernel: Healer) -> None:
    """While an endpoint of the frontend refuses; for less than a second, then not any more."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    first, *_ = kernel.turn()
    assert kernel.dial([HOST], 4) == [Attempt(name) for name in kernel.turn()]
    assert not says_so(kernel)
    with failing(kernel.network, REFUSES, first):
        deadline = time.monotonic() + SECONDS
        while not says_so(kernel):  # a moment may be over before anybody has looked
            assert time.monotonic() < deadline
            kernel.dial([HOST], 4)
    with failing(kernel.network, REFUSES, *FOUR.split()):
        while says_so(kernel):
            assert time.monotonic() < deadline
            kernel.dial([HOST])
        assert kernel.dial() == [REFUSED_TWICE] * 4


def says_so(kernel: Healer) -> bool:
    """Whether the kernel thinks that somebody was just answered."""
    set_ = ["set", KEYWORD[kernel.family], "kube-proxy", "answering"]
    frontend = f"{cluster_ip(21, kernel.family)} . 80 timeout 900ms"
    return frontend in kernel.network.node.run(["nft", "list", *set_])


# --- among which endpoints --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "ways", "times"),
    [
        pytest.param(ETP_LOCAL, OUTSIDE_WAYS, 2, id="external"),
        pytest.param(ITP_LOCAL, (POD, HOST), 1, id="internal"),
    ],
)
def test_a_retry_stays_on_this_node(
    kernel: Healer, spec: Document, ways: tuple[Way, ...], times: int
) -> None:
    """Two of four endpoints are here, and policy Local allows no other."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS, spec)))
    first, last = kernel.turn(local=True)
    with failing(kernel.network, REFUSES, last) as failures:
        found = kernel.dial(ways, times)
        assert {each.who for each in found} == {first}
        assert failures[last].count == sum(each.retries for each in found) == times
    with failing(kernel.network, REFUSES, first, last):
        assert kernel.dial(ways) == [REFUSED_TWICE] * 2


def test_the_only_endpoint_of_this_node_refuses(kernel: Healer) -> None:
    """Clients outside may get no other. Those inside may, and dial the cluster IP."""
    kernel.put(healed(deploy("web", everywhere(21), "L1 R1 R2", PORTS, ETP_LOCAL)))
    kernel.answering()
    with failing(kernel.network, REFUSES, "L1") as failures:
        assert kernel.dial(OUTSIDE_WAYS) == [REFUSED_AT_ONCE] * 2
        found = kernel.dial([POD], 3)
        assert {each.who for each in found} == {"R1", "R2"}
        assert sum(each.retries for each in found) == failures["L1"].count - 2 >= 1


# --- endpoints in odd places ------------------------------------------------------------------


def test_a_pod_that_refuses_itself(kernel: Healer) -> None:
    """What it sends to itself is masqueraded. Each way meets it once: four are chosen in turn."""
    kernel.put(healed(deploy("web", everywhere(21), FOUR, PORTS)))
    kernel.answering()
    ways = (Way("L1", "cluster IP"), Way("L1", "balancer"))
    with failing(kernel.network, REFUSES, "L1") as failures:
        found = kernel.dial(ways, 4)
    assert {each.who for each in found} == {"L2", "R1", "R2"}
    assert failures["L1"].count == sum(each.retries for each in found) >= len(ways)


def test_an_endpoint_with_the_address_of_the_node_refuses(kernel: Healer) -> None:
    """Its reset begins on the node, and to the node itself it does not leave it."""
    service, *slices = deploy("web", everywhere(21), "L2 R1 R2", PORTS)
    _, *others = deploy("web", everywhere(21), "H", [Port(80, NOBODY, NODE_PORT)])
    kernel.put([*healed([service]), *slices, *map(renamed, others)])
    assert "H" in kernel.turn()
    kernel.answering()
    ways = (*WAYS, Way("L1", "cluster IP"), Way("R1", "cluster IP"))
    found = kernel.dial(ways, 4)
    assert {each.who for each in found} == {"L2", "R1", "R2"}
    assert sum(each.retries for each in found) >= len(ways)


def renamed(slice_: Document) -> Document:
    """The slice beside another of its name."""
    metadata = cast("Document", slice_["metadata"])
    return {**slice_, "metadata": {**metadata, "name": f"{metadata['name']}-more"}}


def test_nobody_listens(kernel: Healer) -> None:
    """The resets are those of TCP itself, here and elsewhere."""
    ports = [Port(80, NOBODY, NODE_PORT)]
    kernel.put(healed(deploy("web", everywhere(21), "H L1 R1", ports)))
    assert kernel.dial(times=3) == [REFUSED_TWICE] * 12
