"""The rules around the virtual servers."""

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs import names
from kubeproxy.dataplane.ipvs.names import Set
from kubeproxy.dataplane.ipvs.parse import are_rules_there, listed_rules, missing_jumps
from kubeproxy.dataplane.ipvs.rules import JUMPS, Facts, facts_of, restore_text, tables
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.node import PodInterface
from kubeproxy.table.policy import Masquerading
from world import Mode, node

EVERYTHING = frozenset(Set)
NOTHING: frozenset[Set] = frozenset()
FACTS = Facts(Family.IPV4, "0x4000")


def changed(**fields: object) -> Facts:
    return msgspec.structs.replace(FACTS, **fields)


@pytest.mark.parametrize(
    ("chain", "table", "rules"),
    [
        pytest.param(
            names.SERVICES,
            "nat",
            ["-s 127.0.0.0/8 -j RETURN", "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"],
            id="services",
        ),
        pytest.param(names.NODE_PORT, "nat", [], id="node-ports"),
        pytest.param(names.LOAD_BALANCER, "nat", ["-j KUBE-MARK-MASQ"], id="load-balancers"),
        pytest.param(names.PROXY_FIREWALL, "filter", [], id="firewall"),
        pytest.param(names.RANGES_FIREWALL, "filter", ["-j DROP"], id="source-ranges"),
        pytest.param(names.OUT_FILTER, "filter", [], id="nobody-is-denied"),
    ],
)
def test_empty_sets_have_no_rules(chain: str, table: str, rules: list[str]) -> None:
    assert rules == list(tables(FACTS)[table][chain])


def test_rules_that_look_into_empty_sets_all_the_same() -> None:
    found = tables(FACTS)["filter"]
    assert len(found[names.FILTER]) == 6
    assert len(found[names.NODE_PORT]) == 1


def test_every_set_is_looked_into() -> None:
    text = restore_text(tables(changed(filled=EVERYTHING)), ())
    assert all(f"--match-set KUBE-{set_.value.stem} dst" in text for set_ in Set)


@pytest.mark.parametrize(
    ("fields", "start", "direction"),
    [
        pytest.param(
            {"masquerading": Masquerading.ALWAYS, "not_from_pod": "! -i x "},
            "-m",
            "dst,dst",
            id="all",
        ),
        pytest.param(
            {"masquerading": Masquerading.UNLESS_POD, "not_from_pod": "! -i cali+ "},
            "! -i cali+ -m",
            "dst,dst",
            id="not-a-pod",
        ),
        pytest.param({}, "-m", "src,dst", id="pods-are-not-known"),
    ],
)
def test_who_is_masqueraded_on_the_way_to_cluster_ips(
    fields: dict[str, object], start: str, direction: str
) -> None:
    facts = changed(filled=frozenset({Set.CLUSTER_IP}), **fields)
    assert tables(facts)["nat"][names.SERVICES][1] == (
        f'{start} comment --comment "Kubernetes service cluster ip + port for masquerade purpose"'
        f" -m set --match-set KUBE-CLUSTER-IP {direction} -j KUBE-MARK-MASQ"
    )


def test_addresses_that_this_node_may_not_use() -> None:
    keys = (ServerKey(Protocol.UDP, "203.0.113.7", 53), ServerKey(Protocol.TCP, "fd12::7", 80))
    assert tables(changed(denials=keys))["filter"][names.OUT_FILTER] == (
        "-s 203.0.113.7/32 -m ipvs --vproto 17 --vaddr 203.0.113.7 --vport 53 -j DROP",
        "-s fd12::7/128 -m ipvs --vproto 6 --vaddr fd12::7 --vport 80 -j DROP",
    )


def test_sctp_node_ports_are_looked_up_with_the_address_and_quotes_are_escaped() -> None:
    facts = Facts(Family.IPV6, "0x1", filled=frozenset({Set.NODE_PORT_SCTP}))
    (rule,) = tables(facts)["nat"][names.NODE_PORT]
    assert rule == (
        '-p sctp -m comment --comment "Kubernetes nodeport SCTP port for masquerade purpose with'
        " type \\'hash ip:port\\'\" -m set --match-set KUBE-6-NODE-PORT-SCTP-HASH dst,dst"
        " -j KUBE-MARK-MASQ"
    )


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        pytest.param(node(Mode.IPVS).detector, "! -s 10.64.0.0/14 ", id="a-range"),
        pytest.param(PodInterface("br0"), "! -i br0 ", id="a-bridge"),
        pytest.param(PodInterface("cali", prefix=True), "! -i cali+ ", id="a-prefix"),
        pytest.param(None, "", id="none"),
    ],
)
def test_the_facts_of_a_node(detector: PodInterface | None, expected: str) -> None:
    here = msgspec.structs.replace(node(Mode.IPVS), detector=detector, masquerade_all=True)
    facts = facts_of(here, 15, NOTHING, ())
    assert Facts(Family.IPV4, "0x8000", expected, Masquerading.ALWAYS) == facts


def test_a_restore_has_every_chain_and_the_jumps_that_are_missing() -> None:
    lines = restore_text(tables(FACTS), JUMPS[:1]).splitlines()
    assert lines[0] == "*nat"
    assert lines[1] == ":KUBE-SERVICES - [0:0]"
    assert '-I OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES' in lines
    assert sum(line.startswith(":") for line in lines) == 11
    assert sum(line.startswith("-I") for line in lines) == 1


SAVED = """\
# Generated
*nat
:PREROUTING ACCEPT [3:180]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
-A KUBE-SERVICES -j ACCEPT
COMMIT
"""


def test_rules_are_found_and_compared_chain_by_chain() -> None:
    nat = listed_rules(SAVED)
    assert {"PREROUTING", "KUBE-SERVICES"} == nat.keys()
    wanted = ("-s 127.0.0.0/8 -j RETURN", "-j ACCEPT")
    assert are_rules_there({"nat": {"KUBE-SERVICES": wanted}}, {"nat": nat})
    assert not are_rules_there({"nat": {"KUBE-SERVICES": wanted[:1]}}, {"nat": nat})
    assert not are_rules_there({"nat": {"KUBE-POSTROUTING": ()}}, {"nat": nat})
    assert JUMPS[:1] == missing_jumps(JUMPS[:2], {"nat": nat})
