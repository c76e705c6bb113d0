"""Rules of one entry at a time, where the golden texts do not reach."""

import msgspec
import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.iptables.names import endpoint_chain, seed, service_chains
from kubeproxy.dataplane.iptables.rules import TopRules, chain_rules, is_firewalled, top_rules
from kubeproxy.dataplane.iptables.setup import RuleSetup
from kubeproxy.table.entries import Backend, Entry, Frontend, FrontendKind, ServicePortName
from kubeproxy.table.policy import Policy
from world import prefix

NAME = ServicePortName("shop", "cart", "http", Protocol.TCP)
CHAINS = service_chains(NAME)
CLUSTER_IP = Frontend(FrontendKind.CLUSTER_IP, "10.112.0.21", 80)
NODE_PORT = Frontend(FrontendKind.NODE_PORT, "", 31080)
VIP = Frontend(FrontendKind.LOAD_BALANCER, "203.0.113.7", 80)
ONE = Backend("10.64.3.11", 8080, local=True)
SEP = endpoint_chain(seed(NAME), "10.64.3.11:8080")
ENTRY = Entry(NAME, (CLUSTER_IP,), cluster=(ONE,), has_endpoints=True)
POD = "-s 10.64.0.0/14"
SETUP = RuleSetup(POD, f"! {POD}")
MATCH = "-m tcp -p tcp -d 10.112.0.21 --dport 80"
COMMENT = '-m comment --comment "shop/cart:http cluster IP"'


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        pytest.param(SETUP, f"{COMMENT} {MATCH} ! {POD} -j KUBE-MARK-MASQ", id="not-a-pod"),
        pytest.param(
            msgspec.structs.replace(SETUP, masqueraded=""),
            f"{COMMENT} {MATCH} -j KUBE-MARK-MASQ",
            id="masquerade-all",
        ),
        pytest.param(RuleSetup(), "", id="no-pod-without-a-detector"),
    ],
)
def test_whose_address_is_rewritten_on_the_way_to_a_cluster_ip(
    setup: RuleSetup, expected: str
) -> None:
    rules = chain_rules(ENTRY, setup)[CHAINS.cluster].splitlines()
    masquerade = [rule for rule in rules if "KUBE-MARK-MASQ" in rule]
    assert masquerade == ([f"-A {CHAINS.cluster} {expected}"] if expected else [])


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_endpoint_has_the_same_chance(count: int) -> None:
    backends = tuple(Backend(f"10.64.3.{10 + n}", 8080) for n in range(count))
    entry = msgspec.structs.replace(ENTRY, cluster=backends)
    lines = chain_rules(entry, RuleSetup(), brief=True)[CHAINS.cluster].splitlines()
    left = 1.0
    for line in lines[:-1]:
        chance = float(line.split("--probability ")[1].split()[0])
        assert left * chance == pytest.approx(1 / count, abs=1e-9)
        left *= 1 - chance
    assert "--probability" not in lines[-1]
    assert len(lines) == count


def test_chances_have_ten_digits() -> None:
    entry = msgspec.structs.replace(
        ENTRY, cluster=tuple(Backend(f"10.64.3.{n}", 8080) for n in range(10, 17))
    )
    assert " --probability 0.1428571429 " in chain_rules(entry, SETUP)[CHAINS.cluster]


def test_large_clusters_have_no_comments_on_endpoints() -> None:
    sticky = msgspec.structs.replace(ENTRY, affinity_seconds=600)
    assert chain_rules(sticky, RuleSetup(), brief=True) == {
        CHAINS.cluster: (
            f"-A {CHAINS.cluster} -m recent --name {SEP} --rcheck --seconds 600 --reap -j {SEP}\n"
            f"-A {CHAINS.cluster} -j {SEP}\n"
        ),
        SEP: (
            f"-A {SEP} -s 10.64.3.11 -j KUBE-MARK-MASQ\n"
            f"-A {SEP} -m recent --name {SEP} --set -m tcp -p tcp"
            " -j DNAT --to-destination 10.64.3.11:8080\n"
        ),
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param('a"b', "shop/a?b:http", id="quotation-mark"),
        pytest.param("a\\", "shop/a?:http", id="backslash"),
        pytest.param("a\n-F\x1b[2J", "shop/a?-F?[2J:http", id="control-characters"),
        pytest.param("käse", "shop/k?se:http", id="letters-beyond-ascii"),
        pytest.param("<script>", "shop/<script>:http", id="harmless-here"),
        pytest.param("a" * 300, f"shop/{'a' * 250}", id="longer-than-the-kernel-takes"),
    ],
)
def test_a_name_cannot_break_out_of_its_comment(name: str, expected: str) -> None:
    entry = msgspec.structs.replace(ENTRY, name=NAME._replace(service=name))
    (rule,) = top_rules(entry, SETUP).nat.splitlines()
    assert f'--comment "{expected}' in rule
    assert rule.count('"') == 2


def test_a_service_that_lost_its_cluster_ip_to_another_has_no_rule_for_it() -> None:
    loser = msgspec.structs.replace(ENTRY, frontends=())
    assert top_rules(loser, SETUP) == TopRules()
    assert "KUBE-MARK-MASQ" not in chain_rules(loser, SETUP)[CHAINS.cluster]


def test_what_the_node_sends_to_itself_is_counted_first() -> None:
    entry = msgspec.structs.replace(ENTRY, frontends=(NODE_PORT,))
    head = '-A KUBE-NODEPORTS -m comment --comment "shop/cart:http" -m tcp -p tcp'
    counter = "-m nfacct --nfacct-name localhost_nps_accepted_pkts"
    assert top_rules(entry, RuleSetup(counts_localhost=True)).nat == (
        f"{head} -d 127.0.0.0/8 --dport 31080 {counter} -j {CHAINS.external}\n"
        f"{head} --dport 31080 -j {CHAINS.external}\n"
    )


def test_pods_take_no_short_way_without_a_detector() -> None:
    entry = msgspec.structs.replace(
        ENTRY, external=Policy.EXTERNAL_LOCAL, externally_accessible=True, local=(ONE,)
    )
    assert "pod traffic" in chain_rules(entry, SETUP)[CHAINS.external]
    assert "pod traffic" not in chain_rules(entry, RuleSetup())[CHAINS.external]


@pytest.mark.parametrize(
    ("ranges", "frontends", "serves", "expected"),
    [
        pytest.param(("192.0.2.0/25",), (VIP,), True, True, id="ranges"),
        pytest.param((), (VIP,), True, True, id="ranges-of-the-other-family-only"),
        pytest.param(None, (VIP,), True, False, id="everybody-may"),
        pytest.param(("192.0.2.0/25",), (CLUSTER_IP,), True, False, id="no-load-balancer"),
        pytest.param(("192.0.2.0/25",), (VIP,), False, False, id="no-endpoint-serves"),
    ],
)
def test_when_source_ranges_are_checked(
    ranges: tuple[str, ...] | None, frontends: tuple[Frontend, ...], serves: bool, expected: bool
) -> None:
    entry = msgspec.structs.replace(
        ENTRY,
        frontends=frontends,
        cluster=(ONE,) if serves else (),
        has_endpoints=serves,
        source_ranges=None if ranges is None else tuple(map(prefix, ranges)),
    )
    assert is_firewalled(entry) == expected
    assert (CHAINS.firewall in chain_rules(entry, SETUP)) == expected
