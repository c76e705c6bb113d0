"""Named counters: made once, however often that is asked for."""

from kubeproxy.dataplane.iptables.setup import COUNTERS
from kubeproxy.linux.nfacct import ensure_counters, read_packets
from kubeproxy.linux.nfnetlink import read_counters
from lab.network import Network


def test_counters_are_made_once(network: Network) -> None:
    with network.node.entered():
        first = ensure_counters(COUNTERS)
        assert ensure_counters(COUNTERS) == first


def test_a_name_that_the_kernel_refuses_is_named_with_the_reason(network: Network) -> None:
    with network.node.entered():
        failed = ensure_counters(["x" * 64])
    assert failed.keys() == {"x" * 64}
    assert "cannot make the counter xxx" in failed["x" * 64]


def test_counters_are_read_as_far_as_they_exist(network: Network) -> None:
    with network.node.entered():
        made = COUNTERS[0] not in ensure_counters(COUNTERS[:1])
        found = read_packets((COUNTERS[0], "does-not-exist"))
    assert found.keys() == ({COUNTERS[0]} if made else set())


def test_named_counters_of_nftables_are_read_as_far_as_they_exist(network: Network) -> None:
    node = network.node
    node.run(["nft", "add table ip counted; add counter ip counted a { packets 7 bytes 300; }"])
    with node.entered():
        found = read_counters(2, "counted", ("a", "b"))
        nowhere = read_counters(10, "counted", ("a",))
    node.run(["nft", "delete table ip counted"])
    assert (found, nowhere) == ({"a": 7}, {})
