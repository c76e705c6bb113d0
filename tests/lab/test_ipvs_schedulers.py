"""Every scheduler is set and does what it says, with all weights 1."""

from collections import Counter
from collections.abc import Iterator

import pytest

from kubeproxy.base.inet import Family
from lab.entries import service_ip
from lab.ipvs import flushed, servers
from lab.ipvsplane import NUMBER, entries, plane
from lab.network import Network

SCHEDULERS = (
    *("rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh"),
    *("sh", "sed", "nq", "fo", "ovf", "mh"),
)
FAMILIES = pytest.mark.parametrize("family", Family, ids=lambda family: family.value)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left(network: Network) -> Iterator[None]:
    with flushed(network.node):
        yield


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_it_is_set_and_serves(network: Network, scheduler: str) -> None:
    flags = " -b mh-port" if scheduler == "mh" else ""
    with plane(network, Family.IPV4, scheduler) as opened:
        opened.serve("L1 R1")
        assert servers(network.node) == [f"-t {opened.address}:80 -s {scheduler}{flags}"]
        assert set(opened.dial(2)) <= {"L1", "R1"}


@FAMILIES
@pytest.mark.parametrize("scheduler", ["rr", "wrr"])
def test_endpoints_take_turns(network: Network, family: Family, scheduler: str) -> None:
    with plane(network, family, scheduler) as opened:
        opened.serve("L1 L2 R1")
        answers = opened.dial(9)
        assert Counter(answers) == {"L1": 3, "L2": 3, "R1": 3}
        assert answers[:3] == answers[3:6] == answers[6:]


@FAMILIES
def test_a_client_stays_by_its_address(network: Network, family: Family) -> None:
    with plane(network, family, "sh") as opened:
        opened.serve("L1 L2 R1 R2")
        assert len(set(opened.dial(6))) == 1
        first = opened.dial_crowd(20)
        assert len(set(first)) > 1
        assert first == opened.dial_crowd(20)


@FAMILIES
def test_a_client_stays_by_its_address_and_port(network: Network, family: Family) -> None:
    """Two services with the same endpoints: a hash chooses the same one for both."""
    numbers = (NUMBER, NUMBER + 1)
    addresses = [service_ip(number, family) for number in numbers]
    with plane(network, family, "mh") as opened:
        opened.put(*entries(family, "L1 L2 R1 R2", numbers))
        seen = [opened.dial_from(port, addresses) for port in range(20001, 20013)]
        assert all(len(set(both)) == 1 for both in seen), seen
        assert len({who for both in seen for who in both}) > 1


@FAMILIES
@pytest.mark.parametrize("scheduler", ["lc", "wlc", "sed", "nq"])
def test_the_endpoint_with_fewest_connections_is_next(
    network: Network, family: Family, scheduler: str
) -> None:
    with plane(network, family, scheduler) as opened:
        opened.serve("L1 L2 R1")
        held = [opened.connect() for _ in range(9)]
        assert Counter(each.answer.who for each in held) == {"L1": 3, "L2": 3, "R1": 3}
        for each in held:
            if each.answer.who == "L2":
                each.close()
        assert [opened.connect().answer.who for _ in range(2)] == ["L2", "L2"]
