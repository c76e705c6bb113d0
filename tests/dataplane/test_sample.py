"""The small cluster of the trials has every kind of rule in it."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.describe import describe as iptables_text
from kubeproxy.dataplane.iptables.setup import COUNTERS, Options
from kubeproxy.dataplane.nftables.describe import describe as nftables_text
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.sample import sample_node, sample_table
from kubeproxy.dataplane.xtables_suspects import suspects

MATCHES = {"addrtype", "comment", "conntrack", "mark", "nfacct", "recent", "statistic"}
MATCHES |= {"tcp", "udp", "DNAT", "MARK", "MASQUERADE", "REJECT"}


@pytest.mark.parametrize("family", Family)
def test_iptables_mode_needs_every_match_and_target_for_it(family: Family) -> None:
    options = Options(counters=frozenset(COUNTERS))
    text = iptables_text(sample_table(family), sample_node(family), options)
    assert frozenset().union(*suspects(text).values()) == MATCHES


@pytest.mark.parametrize("family", Family)
def test_nftables_mode_fills_its_maps_with_it(family: Family) -> None:
    node = sample_node(family)
    text = nftables_text(program(node, NftablesSettings()), sample_table(family), node)
    for piece in ("jhash", "numgen random", "-sticky", "fib saddr", "reject"):
        assert piece in text
