"""What is so in ipvs mode only; in a kernel that has it."""

import pytest

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import NARROW_RANGES, SCTP, UDP, Port, affinity, deploy, everywhere, mall
from lab.pairs import pair
from lab.plan import cluster_ip, external_ip, vip
from lab.stage import Lab


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("endpoints", ["L1 R1", ""], ids=["served", "no-endpoint"])
def test_the_node_uses_the_balancers_address_by_itself(
    lab: Lab, family: Family, endpoints: str
) -> None:
    """It has the address on its device, where others would need an interface with it."""
    lab.run(documents=deploy("bank", everywhere(21), endpoints, spec=NARROW_RANGES))
    address = vip(21, family)
    for source in (address, cluster_ip(21, family)):
        lab.compare([pair("H", (address, Protocol.TCP, 80), source)])


@pytest.mark.parametrize("family", Family)
def test_each_frontend_has_its_own_affinity(lab: Lab, family: Family) -> None:
    """Each new client gets the next endpoint, and each address begins with the first."""
    lab.run()
    lab.put(*deploy("sticky", everywhere(21), "L1 L2 R1", spec=affinity()))
    lab.dial("P", vip(21, family), 80)
    addresses = (cluster_ip(21, family), vip(21, family), external_ip(21, family))
    first = [lab.dial("X", address, 80).who for address in addresses]
    assert len(set(first)) > 1
    for _ in range(3):
        assert [lab.dial("X", address, 80).who for address in addresses] == first


def test_tcp_goes_on_while_its_service_is_there(lab: Lab) -> None:
    lab.run(documents=mall())
    connections = [
        lab.connect(source, address, port, protocol)
        for source in ("P", "H", "X")
        for family in Family
        for address, port, protocol in (
            (cluster_ip(23, family), 80, Protocol.TCP),
            (vip(24, family), 80, Protocol.TCP),
            (external_ip(37, family), 81, Protocol.SCTP),
        )
    ]
    lab.put(*mall(), *deploy("more", everywhere(39), "L1"))
    for connection in connections:
        connection.talk()
    ports = [Port(node_port=31080), Port(53, 53, 31081, UDP)]
    others = [Port(81, 8081, 31090, SCTP)]
    lab.put(
        *deploy("front", everywhere(23), "L2", ports),
        *deploy("near", everywhere(24), "L2", [Port(node_port=31082)]),
        *deploy("exchange", everywhere(37), "L1 R1", others),
    )
    for connection in connections:
        connection.talk()
    assert lab.dial("P", cluster_ip(23), 80).who == "L2"
