"""Real servers that leave: TCP drains, other protocols go at once, and who returns is served."""

import time
from collections.abc import Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, join
from kubeproxy.linux.xtables import Xtables
from lab.ipvs import flushed, option
from lab.ipvsplane import Plane, plane
from lab.network import Network
from lab.plan import HOSTS

TCP, UDP, SCTP = Protocol
FAMILIES = pytest.mark.parametrize("family", Family, ids=lambda family: family.value)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_left(network: Network) -> Iterator[None]:
    with flushed(network.node):
        yield


def test_it_keeps_its_connections_and_goes_with_the_last(network: Network) -> None:
    with plane(network, Family.IPV4) as ipv4, plane(network, Family.IPV6) as ipv6:
        planes = (ipv4, ipv6)
        held = []
        for opened in planes:
            opened.serve("L1 R1")
            held += [opened.connect(), opened.connect()]
            opened.serve("L1")
            assert opened.weights() == {"L1": 1, "R1": 0}
            assert opened.dial(4) == ["L1"] * 4
            opened.look_after()
        for each in held:
            each.talk()
        assert [opened.weights() for opened in planes] == [{"L1": 1, "R1": 0}] * 2
        for each in held:
            each.close()
        deadline = time.monotonic() + 30.0  # a closed connection is remembered for ten seconds
        for opened in planes:
            while opened.weights() != {"L1": 1}:
                assert time.monotonic() < deadline, opened.weights()
                time.sleep(0.2)
                opened.look_after()


@FAMILIES
def test_an_endpoint_without_connections_is_removed_at_once(
    network: Network, family: Family
) -> None:
    with plane(network, family) as opened:
        opened.serve("L1 R1")
        opened.serve("L1")
        assert opened.weights() == {"L1": 1}


@FAMILIES
@pytest.mark.parametrize("protocol", [UDP, SCTP])
def test_other_protocols_do_not_drain(
    network: Network, family: Family, protocol: Protocol
) -> None:
    with plane(network, family) as opened:
        opened.serve("L1 R1", protocol)
        opened.dial(1, protocol=protocol)  # a kernel's first association waits for its modules
        assert set(opened.dial(4, protocol=protocol)) == {"L1", "R1"}
        opened.serve("L1", protocol)
        assert opened.weights(protocol) == {"L1": 1}
        assert set(opened.dial(3, protocol=protocol)) == {"L1"}


@FAMILIES
def test_an_endpoint_that_returns_while_draining_is_used_at_once(
    network: Network, family: Family
) -> None:
    with plane(network, family) as opened:
        opened.serve("L1 R1")
        held = [opened.connect(), opened.connect()]
        opened.serve("L1")
        opened.serve("L1 R1")
        assert opened.weights() == {"L1": 1, "R1": 1}
        assert set(opened.dial(2)) == {"L1", "R1"}
        opened.look_after()
        assert opened.weights() == {"L1": 1, "R1": 1}
        for each in held:
            each.talk()


def test_what_a_former_process_left_draining(network: Network) -> None:
    with plane(network, Family.IPV4) as opened:
        opened.serve("L1 L2 R1")
        held = [opened.connect() for _ in range(3)]
        opened.serve("L1")
        assert opened.weights() == {"L1": 1, "L2": 0, "R1": 0}
        again = Plane(network, Family.IPV4, opened.settings)
        again.serve("L1 L2")
        assert again.weights() == {"L1": 1, "L2": 1, "R1": 0}
        assert set(again.dial(4)) == {"L1", "L2"}
        for each in held:
            each.talk()
        again.close()


def test_an_endpoint_that_drained_is_used_again_though_the_first_sync_failed(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> str:
        raise KernelError("killed")

    with plane(network, Family.IPV4) as before, plane(network, Family.IPV4) as after:
        before.serve("L1 R1")
        server = option(before.address, 80)
        real = join(HOSTS["R1"].address(Family.IPV4), 8080)
        network.node.run(["ipvsadm", "-e", *server, "-r", real, "-m", "-w", "0"])
        with monkeypatch.context() as patch:
            patch.setattr(Xtables, "save", fail)
            with pytest.raises(KernelError, match="killed"):
                after.serve("L1 R1")
        assert after.weights() == {"L1": 1, "R1": 0}
        after.serve("L1 R1")
        assert after.weights() == {"L1": 1, "R1": 1}
