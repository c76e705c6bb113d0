"""The latest failures, as the daemon serves them again and again."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.base.steps import finish
from kubeproxy.dataplane.failures import UNKNOWN, Endpoint, Failure, Reason
from kubeproxy.engine.observer import ConnectionsFailed
from kubeproxy.serve.healing.recent import MOST
from kubeproxy.serve.status.failures import failure_list
from kubeproxy.serve.status.wire import FailedConnections, FailureList
from kubeproxy.table.entries import FrontendKey, ServicePortName
from serve.status.living import Rig
from world import Mode

NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)
DIALLED = FrontendKey("fd12::21", Protocol.TCP, 80)
STARTED = "2023-11-14T22:13:20.000Z"


def rig(*endpoints: Endpoint) -> Rig:
    found = Rig()
    for each in endpoints:
        failure = Failure(Reason.REFUSED, "fd40::50", DIALLED, each, 3)
        found.observe(ConnectionsFailed(Family.IPV6, ((NAME, failure),)))
    return found


def answer(found: Rig, after: int = 0) -> FailureList:
    return finish(failure_list(found.live.state(), after))


def test_a_failure_in_full() -> None:
    expected = FailedConnections(
        number=1,
        time=STARTED,
        service_port="shop/cart:http",
        protocol="TCP",
        ip_family="IPv6",
        client="fd40::50",
        destination="[fd12::21]:80",
        endpoint="[fd40::11]:8080",
        reason="refused",
        times=3,
    )
    found = answer(rig(Endpoint("fd40::11", 8080)))
    assert found == FailureList(True, STARTED, 1, 0, (expected,))


def test_an_endpoint_that_is_not_known() -> None:
    (found,) = answer(rig(UNKNOWN)).failures
    assert found.endpoint == ""


@pytest.mark.parametrize(
    ("happened", "after", "numbers", "missed"),
    [
        pytest.param(0, 0, [], 0, id="none"),
        pytest.param(3, 1, [2, 3], 0, id="new-ones"),
        pytest.param(3, 3, [], 0, id="no-new-ones"),
        pytest.param(3, 99, [], 0, id="a-number-of-an-earlier-daemon"),
        pytest.param(MOST + 3, 0, list(range(4, MOST + 4)), 3, id="some-are-not-kept-any-more"),
    ],
)
def test_what_is_new(happened: int, after: int, numbers: list[int], missed: int) -> None:
    found = answer(rig(*[UNKNOWN] * happened), after)
    assert numbers == [each.number for each in found.failures]
    assert (found.last, found.missed) == (happened, missed)


def test_a_mode_that_does_not_heal() -> None:
    assert answer(Rig(mode=Mode.IPTABLES)) == FailureList(False, STARTED, 0, 0, ())
