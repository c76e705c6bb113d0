"""The packet's priority, which carries numbers on the way: what of it leaves the node."""

import re
import socket

import pytest

from kubeproxy.base.inet import Family
from lab.entries import served, service_ip
from lab.farm import crop
from lab.listing import KEYWORD
from lab.network import Network
from lab.plan import KESTREL
from lab.plane import Plane

PRIORITY = 5
SPY = """
table {ip} spy {{
    chain leaving {{
        type filter hook postrouting priority 300
        {ip} daddr {endpoint} tcp flags & (syn | ack) == syn meta priority none counter comment "first"
        {ip} daddr {endpoint} tcp flags & (syn | ack) == ack meta priority 0:{priority} counter comment "kept"
        {ip} daddr {endpoint} meta priority != {{ 0:0, 0:{priority}, 0:6 }} counter comment "other"
    }}
}}
"""  # noqa: E501  # 0:6 is what the kernel gives a packet for interactive use


@pytest.mark.usefixtures("farm")
@pytest.mark.parametrize("name", [KESTREL, "P"], ids=["from-the-node", "from-a-pod"])
def test_no_number_leaves_with_a_packet(kestrel: Plane, network: Network, name: str) -> None:
    """All but the first packet keep what their sender set; those of pods have none to keep."""
    family = kestrel.node.family
    backend = crop(7, family)
    kestrel.put([served(1, [backend], family)])
    network.node.run(
        ["nft", "-f", "-"],
        stdin=SPY.format(ip=KEYWORD[family], endpoint=backend.address, priority=PRIORITY),
    )
    try:
        _connect(network, name, family)
        text = network.node.run(["nft", "list", "table", KEYWORD[family], "spy"])
    finally:
        network.node.run(["nft", "delete", "table", KEYWORD[family], "spy"])
    counted = {
        comment: int(packets)
        for packets, comment in re.findall(r'packets (\d+) bytes \d+ comment "(\w+)"', text)
    }
    assert counted["first"] == 1
    assert counted["other"] == 0
    assert (counted["kept"] > 0) is (name == KESTREL)


def _connect(network: Network, name: str, family: Family) -> None:
    kind = socket.AF_INET if family is Family.IPV4 else socket.AF_INET6
    with network.namespaces[name].entered(), socket.socket(kind) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, PRIORITY)
        connection.settimeout(5)
        connection.connect((service_ip(1, family), 80))
