"""`--cleanup` where other releases of kube-proxy have been, in all of their modes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane import leftover_rules
from dataplane.leftover_rules import LEFTOVERS, Leftover
from kubeproxy.base.inet import Family
from kubeproxy.linux.tools import RuleKind
from lab.cleaning import cleaned, program, restore_beside, running, saved, set_names, wait
from lab.namespaces import Namespace

EXAMPLES = Path(__file__).parents[2] / "examples"
CASES = [
    pytest.param(leftover, families, backend, id=f"{leftover}-{name}-{backend.value}")
    for leftover in LEFTOVERS
    for name, families in (
        [("both", tuple(Family))]
        if leftover.is_dual_stack
        else [(family.value, (family,)) for family in Family]
    )
    for backend in RuleKind
]
KUBELETS = (
    "filter KUBE-FIREWALL, filter KUBE-KUBELET-CANARY, mangle KUBE-IPTABLES-HINT,"
    " mangle KUBE-KUBELET-CANARY, nat KUBE-KUBELET-CANARY, nat KUBE-MARK-DROP"
)


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A kernel with rules of others, and a set."""
    namespace = Namespace("cleanup")
    for family in Family:
        for backend in RuleKind:
            restore_beside(namespace, backend, family, leftover_rules.others(family))
    namespace.run(["ipset", "create", "blocklist", "hash:ip"])
    yield namespace
    namespace.close()


def load(
    node: Namespace, backend: RuleKind, family: Family, leftover: Leftover, text: str
) -> None:
    """Do what a kube-proxy of that release did, as far as this kernel can."""
    node.run(["ipset", "restore", "-exist"], leftover_rules.sets(leftover, family))
    restore_beside(node, backend, family, leftover_rules.ordinary(text))


@pytest.mark.parametrize(("leftover", "families", "backend"), CASES)
def test_all_of_kube_proxy_goes_and_all_of_others_and_of_the_kubelet_stays(
    node: Namespace, leftover: Leftover, families: tuple[Family, ...], backend: RuleKind
) -> None:
    for family in families:
        restore_beside(node, backend, family, leftover_rules.kubelet(family))
    before = {family: saved(node, backend, family) for family in families}
    for family in families:
        load(node, backend, family, leftover, leftover_rules.rules(leftover, family))
        assert saved(node, backend, family) != before[family]
    code, said = cleaned(node)
    after = {family: saved(node, backend, family) for family in families}
    assert (0, before, ["blocklist"]) == (code, after, set_names(node)), said
    for family in families:
        assert f'program="{program(backend, family)}" chains="{KUBELETS}"' in said
    code, said = cleaned(node)
    assert (code, "There is nothing to remove" in said) == (0, True), said
    assert before == {family: saved(node, backend, family) for family in families}


# Releases up to 1.13 wrote nothing before the kubelet had made KUBE-MARK-DROP.
@pytest.mark.parametrize("backend", RuleKind)
@pytest.mark.parametrize(
    "leftover", [each for each in LEFTOVERS if each.release in {"1.20", "1.28"}], ids=str
)
def test_where_no_kubelet_is_what_guards_the_node_stays_and_is_named(
    node: Namespace, leftover: Leftover, backend: RuleKind
) -> None:
    """kube-proxy makes chains for the kubelet: those without rules go, too."""
    before = {family: saved(node, backend, family) for family in Family}
    for family in Family:
        rules = leftover_rules.rules_without_kubelet(leftover, family)
        load(node, backend, family, leftover, rules)
    code, said = cleaned(node)
    after = {family: saved(node, backend, family) for family in Family}
    guarded = str(leftover) == "1.28-iptables"
    assert (0, guarded) == (code, after[Family.IPV4] != before[Family.IPV4]), said
    assert before[Family.IPV6] == after[Family.IPV6]
    assert (4 if guarded else 0) == after[Family.IPV4].count("KUBE-FIREWALL")
    named = f'program="{program(backend, Family.IPV4)}" chains="filter KUBE-FIREWALL"\n'
    assert guarded is (named in said)


def test_the_tables_of_upstreams_nftables_mode_go(node: Namespace) -> None:
    before = node.run(["nft", "list", "ruleset"])
    for family in Family:
        node.run(["nft", "-f", "-"], leftover_rules.nftables(family))
    code, said = cleaned(node)
    assert (code, said.count('what="nftables table ')) == (0, 2), said
    assert before == node.run(["nft", "list", "ruleset"])


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_what_this_release_writes_goes(node: Namespace, mode: str, tmp_path: Path) -> None:
    before = {family: saved(node, RuleKind.NFT, family) for family in Family}
    log = tmp_path / "log"
    flags = [f"--proxy-mode={mode}", "--cluster-cidr=10.64.0.0/14,fd40::/48", "-v=2"]
    with running(node, EXAMPLES, log, flags):
        wait(lambda: log.read_text().count('"Synced"') >= len(Family), log.read_text)
    assert "203.0.113.20" in node.run(["nft", "list", "ruleset"])
    code, said = cleaned(node)
    assert code == 0, said
    assert "203.0.113.20" not in node.run(["nft", "list", "ruleset"])
    assert before[Family.IPV6] == saved(node, RuleKind.NFT, Family.IPV6)
    changed = set(saved(node, RuleKind.NFT, Family.IPV4).splitlines()).symmetric_difference(
        before[Family.IPV4].splitlines()
    )
    assert (4 if mode == "iptables" else 0) == len(changed)
    assert all("KUBE-FIREWALL" in line for line in changed)
