"""Another program changes our tables: the daemon notices and repairs them, at once."""

import time

import pytest

from kubeproxy.base.inet import Family
from lab.deploy import mall
from lab.generations import Generations
from lab.listing import KEYWORD, Blocks, blocks, list_table
from lab.network import Network
from lab.plan import cluster_ip
from lab.stage import Lab

SLOWEST = 5.0
"""Seconds until the kernel is right again; on a machine that has time it is a hundredth.

A daemon that has not noticed compares only every hour.
"""


def rules(network: Network) -> dict[Family, Blocks]:
    return {family: blocks(list_table(network.node, family)) for family in Family}


def wait_right(network: Network, wanted: dict[Family, Blocks]) -> None:
    """Wait until the rules are as they should be."""
    deadline = time.monotonic() + 60
    while True:
        try:
            found = rules(network)
        except AssertionError:  # there is no table
            found = {}
        if found == wanted or time.monotonic() > deadline:
            assert wanted == found, "the rules are not put right"
            return
        time.sleep(0.005)


@pytest.fixture
def running(lab: Lab) -> Lab:
    """A daemon that has just repaired something: chains that are no longer used are gone.

    They stay while changes go by, and a repair removes them: the rules before and after it are
    the same only from the second one on.
    """
    lab.run(documents=mall())
    deadline = time.monotonic() + 60
    for family in Family:
        lab.network.node.run(["nft", "add", "chain", KEYWORD[family], "kube-proxy", "guest"])
    while any("chain guest" in found for found in rules(lab.network).values()):
        assert time.monotonic() < deadline, "the guests are not shown out"
    while transactions_of_a_change(lab) > len(Family):
        assert time.monotonic() < deadline, "the repairs do not end"
    return lab


def transactions_of_a_change(lab: Lab) -> int:
    """How many transactions there are until a change is programmed, one in each family.

    What the daemon does by itself comes before: it has read of its own transactions by then.
    """
    with Generations(lab.network.node) as generations:
        lab.put(*mall())
    return len(generations.seen)


def took(generations: Generations) -> float:
    """The time from the change by others to the last transaction of the daemon."""
    return generations.seen[-1].at - generations.by("nft")[0].at


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param("flush table {ip} kube-proxy", id="rules-flushed"),
        pytest.param("delete table {ip} kube-proxy", id="table-deleted"),
        pytest.param("flush ruleset", id="everything-flushed"),
        pytest.param("flush map {ip} kube-proxy service-choices", id="map-flushed"),
        pytest.param("flush map {ip} kube-proxy choice-chains", id="chains-flushed"),
        pytest.param("flush set {ip} kube-proxy firewall-sources", id="set-of-ranges-flushed"),
        pytest.param(
            "delete element {ip} kube-proxy service-choices {{ {vip} . tcp . 80 }}",
            id="frontend-deleted",
        ),
        pytest.param(
            "delete element {ip} kube-proxy service-endpoints {{ {vip} . tcp . 80 . 0:1 }}",
            id="endpoint-deleted",
        ),
        pytest.param(
            "add element {ip} kube-proxy service-choices {{ {vip} . tcp . 81 : 0:1 }}",
            id="frontend-added",
        ),
        pytest.param("insert rule {ip} kube-proxy frontends drop", id="rule-inserted"),
        pytest.param("add rule {ip} kube-proxy pick-2 accept", id="rule-added-to-a-choice"),
        pytest.param("flush chain {ip} kube-proxy frontends", id="chain-flushed"),
        pytest.param("delete chain {ip} kube-proxy filter/input", id="base-chain-deleted"),
        pytest.param("add chain {ip} kube-proxy guest", id="chain-added"),
        pytest.param("add set {ip} kube-proxy guests {{ type mark; }}", id="set-added"),
        pytest.param("chain {ip} kube-proxy filter/input {{ policy drop; }}", id="policy-changed"),
        pytest.param("table {ip} kube-proxy {{ flags dormant; }}", id="table-put-to-sleep"),
    ],
)
def test_a_change_of_others_is_undone(running: Lab, family: Family, script: str) -> None:
    network = running.network
    wanted = rules(network)
    text = script.format(ip=KEYWORD[family], vip=cluster_ip(21, family))
    with Generations(network.node) as generations:
        network.node.run(["nft", text])
        wait_right(network, wanted)
    seconds = took(generations)
    print(f"{text}: right again after {1000 * seconds:.1f} ms")  # noqa: T201  # shown by -rP
    assert seconds < SLOWEST
    running.rules()


def test_flushes_in_a_row(running: Lab) -> None:
    """Whoever calls after the repair is served.

    These are clients that did not call before it: for ten seconds conntrack keeps a call that it
    did not translate, and a call that gets the same port again goes where that one went.
    """
    network = running.network
    wanted = rules(network)
    for _ in range(10):
        with Generations(network.node) as generations:
            network.node.run(["nft", "flush", "ruleset"])
            wait_right(network, wanted)
        assert took(generations) < SLOWEST
        for family in Family:
            assert set(running.dial_crowd(cluster_ip(21, family), 80)) == {"L1", "R1"}
    # The daemon does not take its own repair for a change by others.
    assert transactions_of_a_change(running) == len(Family)


def test_changes_elsewhere_are_ignored(running: Lab) -> None:
    node = running.network.node
    running.put(*mall())
    with Generations(node) as generations:
        node.run(["nft", "add table ip theirs"])
        node.run(["nft", "add chain ip theirs kube-proxy"])
        node.run(["nft", "add table inet kube-proxy"])
        for number in range(50):
            node.run(["nft", f"add rule ip theirs kube-proxy tcp dport {number} accept"])
        node.run(["nft", "delete table ip theirs"])
        node.run(["nft", "delete table inet kube-proxy"])
        running.put(*mall())
    ours = [each for each in generations.seen if each.by != "nft"]
    assert len(generations.by("nft")) == 55
    # Both families have written the put at the end, and nothing else.
    assert len(ours) == 2
    assert ours[0].generation > generations.by("nft")[-1].generation
