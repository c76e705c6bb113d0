"""Clients call without a pause while everything changes: no client is ever turned away."""

import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kubeproxy.base.inet import Family
from lab.calls import Calls
from lab.deploy import Address, Port, deploy, everywhere
from lab.entries import exposed, served
from lab.farm import crop
from lab.listing import KEYWORD, blocks, list_table
from lab.network import Network
from lab.plan import HOSTS, cluster_ip, external_ip, vip
from lab.plane import Plane
from lab.restless import SERVICES, entries
from lab.salvo import Salvo
from lab.stage import Lab
from world import NODE_IP

CHANGES = 300
RESTARTS = 8
FIRST_FILL, LATER = (4, 20, 28, 29), (24, 1, 40, 2, 3)
"""After how many transactions a process dies; the longer ones begin with a first fill."""
TESTS = Path(__file__).parents[1]


@pytest.mark.usefixtures("farm")
def test_hundreds_of_changes_of_endpoints(kestrel: Plane, network: Network) -> None:
    """Some are added, some removed, some replaced; those that are gone still answer."""
    family = kestrel.node.family
    chance = random.Random(4)
    present = [0, 1, 2]

    def put() -> None:
        entry = served(1, [crop(number, family) for number in present], family)
        kestrel.put([exposed(entry, 1, family)])

    put()
    inside = [(cluster_ip(1, family), 80)]
    outside = [
        *((vip(1, family), 80), (external_ip(1, family), 80)),
        (NODE_IP[family], 30001),
    ]
    with Calls(network, "P", inside) as pod, Calls(network, "X", outside) as client:
        for _ in range(CHANGES):
            _change(present, chance)
            put()
        for calls in (pod, client):
            answers = calls.so_far()
            assert (answers.failed, answers.failures) == (0, ())
            assert answers.total > 200
            assert len(answers.by) > 20
    assert kestrel.restart().written == 0


def _change(present: list[int], chance: random.Random) -> None:
    """Another endpoint comes, one goes, or one takes the place of another; one always stays."""
    absent = [number for number in range(30) if number not in present]
    what = chance.choice(("add", "remove", "replace"))
    if what != "remove" and len(present) < 12:
        present.append(chance.choice(absent))
    if what != "add" and len(present) > 1:
        present.pop(chance.randrange(len(present) - 1))


def test_restarts_of_the_daemon(lab: Lab) -> None:
    lab.run(documents=deploy("cart", everywhere(21), "L1 L2 R1", [Port(node_port=31080)]))
    inside = [(cluster_ip(21, family), 80) for family in Family]
    outside = [(vip(21, family), 80) for family in Family] + [(HOSTS["H"].ipv4, 31080)]
    with (
        Calls(lab.network, "P", inside, pause=0.001) as pod,
        Calls(lab.network, "X", outside, pause=0.001) as client,
    ):
        for _ in range(RESTARTS):
            lab.restart()
        for calls in (pod, client):
            answers = calls.so_far()
            assert (answers.failed, answers.failures) == (0, ())
            assert len(answers.by) == 6
    lab.put(*deploy("cart", Address(21), "L1"))


@pytest.mark.parametrize(
    "lifetimes",
    [
        pytest.param(FIRST_FILL, id="in-a-first-fill"),
        pytest.param(LATER, id="in-a-restart-or-in-changes"),
    ],
)
@pytest.mark.usefixtures("farm")
def test_a_process_that_is_killed_leaves_a_kernel_that_serves(
    kestrel: Plane, network: Network, lifetimes: tuple[int, ...]
) -> None:
    family = kestrel.node.family
    salvo = Salvo(network)
    left = []
    for lifetime in lifetimes:
        if lifetime > 3:
            network.node.run(["nft", "flush", "ruleset"])
        _program_and_die(network, family, lifetime)
        serving = _frontends(network, family)
        assert len(salvo.fire([(address, 80) for address in serving])) == len(serving)
        left.append(len(serving))
        network.node.run(["conntrack", "-F"])
    if lifetimes is FIRST_FILL:
        assert set(left) - {0, SERVICES}, f"none was killed between two frontends: {left}"
    kestrel.put(entries(random.Random(6), family).values())
    assert blocks(kestrel.text()).items() <= blocks(list_table(network.node, family)).items()
    kestrel.resync()
    assert blocks(kestrel.text()) == blocks(list_table(network.node, family))
    assert len(_frontends(network, family)) == SERVICES


def _program_and_die(network: Network, family: Family, lifetime: int) -> None:
    command = [
        *(sys.executable, "-m", "lab.restless"),
        *(str(network.node.path), str(lifetime), family.value),
    ]
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(TESTS)}, check=False)
    assert ran.returncode == -signal.SIGKILL


def _frontends(network: Network, family: Family) -> list[str]:
    """The frontends that lead somewhere; each of them must lead to a list without a gap."""
    if not network.node.run(["nft", "list", "tables", KEYWORD[family]]):
        return []
    text = "".join(
        network.node.run(["nft", "list", "map", KEYWORD[family], "kube-proxy", name])
        for name in ("service-choices", "choice-chains", "service-endpoints")
    )
    counts = {n: int(count) for n, count in re.findall(r"(0:\w+) : goto pick-(\d+)", text)}
    frontends = re.findall(r"(\S+) \. udp \. 80 : (0:\w+)", text)
    places = set(re.findall(r"(\S+) \. udp \. 80 \. 0:(\w+) :", text))
    wanted = {
        (address, f"{place:x}")
        for address, number in frontends
        for place in range(1, 1 + counts[number])
    }
    assert not wanted - places
    return [address for address, _ in frontends]
