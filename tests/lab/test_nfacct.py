"""Named counters: made once, however often that is asked for."""

from kubeproxy.dataplane.iptables.setup import COUNTERS
from kubeproxy.kernel.nfacct import ensure_counters
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
