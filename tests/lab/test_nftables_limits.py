"""Names, numbers and lists as large as they get; connections are counted; rights are needed."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

from kubeproxy.base.inet import Family, Protocol
from lab.deploy import TCP, Address, Port, deploy, everywhere
from lab.entries import exposed, served
from lab.farm import crop
from lab.listing import KEYWORD
from lab.network import Network
from lab.outcome import Fate
from lab.pairs import pair
from lab.plan import cluster_ip, external_ip, vip
from lab.plane import Plane
from lab.salvo import Salvo
from lab.stage import Lab
from world import NODE_IP, Document

TESTS = Path(__file__).parents[1]
LONGEST_NAME = "a" + 61 * "-" + "z"


def test_the_longest_names(lab: Lab) -> None:
    documents = deploy(LONGEST_NAME, everywhere(21), "L1 R1", [Port(node_port=31080)])
    for document in documents:
        cast("Document", document["metadata"])["namespace"] = LONGEST_NAME
    lab.run(documents=documents)
    lab.compare(sources=("P", "X"))


def test_a_service_with_a_thousand_ports(lab: Lab) -> None:
    numbers = range(10_000, 11_000)
    ports = [Port(number, 8080 if number % 2 else 8081) for number in numbers]
    lab.run(documents=deploy("wide", Address(21), "L1 R1", ports))
    for family in Family:
        targets = [(cluster_ip(21, family), TCP, number) for number in numbers]
        outcomes = lab.dialer.dial([pair("P", target).probe() for target in targets])
        assert {outcome.fate for outcome in outcomes} == {Fate.ANSWERED}
        reached = [outcome.at.port for outcome in outcomes if outcome.at]
        assert reached == [port.target for port in ports]
    lab.put(*deploy("wide", Address(21), "R1", ports[:1]))
    assert lab.dial("P", cluster_ip(21), 10_001).fate is Fate.UNREACHABLE


def test_a_service_with_five_thousand_endpoints(kestrel: Plane, salvo: Salvo) -> None:
    family = kestrel.node.family
    numbers = list(range(5000))
    chance = random.Random(9)

    def put() -> int:
        backends = [crop(number, family) for number in numbers]
        return kestrel.put([served(1, backends, family, Protocol.UDP)]).written

    put()
    hits = salvo.fire([(cluster_ip(1, family), 80)] * 20_000)
    assert len(hits) == 20_000
    # One of 5,000 is missed by 20,000 draws with a chance of 0.018.
    assert 4850 < len({hit.endpoint for hit in hits}) < 4970
    for _ in range(10):
        numbers.remove(chance.choice(numbers))
        assert put() < 10
    gone = {f"{crop(n, family).address} 9000" for n in set(range(5000)) - set(numbers)}
    hits = salvo.fire([(cluster_ip(1, family), 80)] * 5_000)
    assert len(hits) == 5_000
    assert not gone & {hit.endpoint for hit in hits}
    assert kestrel.restart().written == 0


def counted(network: Network, family: Family) -> dict[str, int]:
    """How many connections each frontend has had."""
    found = {}
    for name in ("service-connections", "nodeport-connections"):
        text = network.node.run(["nft", "list", "set", KEYWORD[family], "kube-proxy", name])
        for where, packets in re.findall(r"(\S* ?\.? ?udp \. \d+) counter packets (\d+)", text):
            found[where] = int(packets)
    return found


def test_connections_are_counted_over_changes_and_restarts(
    kestrel: Plane, salvo: Salvo, lab: Lab
) -> None:
    family = kestrel.node.family
    backends = [crop(number, family) for number in range(5)]
    targets = [
        *((cluster_ip(1, family), 80), (vip(1, family), 80), (external_ip(1, family), 80)),
        (NODE_IP[family], 30001),
    ]
    for number in range(1, 6):
        entry = exposed(served(1, backends[:number], family, Protocol.UDP), 1, family)
        kestrel.put([entry])
        for target in targets:
            assert len(salvo.fire([target] * 30)) == 30
        if number == 3:
            kestrel.restart()
    assert list(counted(lab.network, family).values()) == [150] * len(targets)


def test_without_the_right_to_it_there_is_one_clear_message(lab: Lab, tmp_path: Path) -> None:
    lab.stop()
    command = [
        *("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", sys.executable),
        *("-m", "kubeproxy"),
        *("--proxy-mode=nftables", f"--manifests={tmp_path}"),
    ]
    with lab.network.node.entered():
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    complaints = [line for line in ran.stderr.splitlines() if line.startswith("E")]
    assert ran.returncode == 1
    assert len(complaints) == 1, ran.stderr
    assert "CAP_NET_ADMIN" in complaints[0]
    assert "Traceback" not in ran.stderr
