"""The rules around the virtual servers."""

import msgspec
import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.names import IpSet, set_name
from kubeproxy.dataplane.ipvs.rules import (
    JUMPS,
    missing_jumps,
    restore_text,
    tables,
)
from kubeproxy.dataplane.xtables_text import RuleTables, tables_in
from kubeproxy.linux.netlink.ipvs import ServerKey
from kubeproxy.table.node import Detector, NodeView, PodInterface
from world import Mode, node

HERE = node(Mode.IPVS)


def tables_with(
    *filled: IpSet, here: NodeView = HERE, denials: tuple[ServerKey, ...] = ()
) -> RuleTables:
    """The rules without the chain in front."""
    return {
        table: {
            chain: [rule.removeprefix(f"-A {chain} ") for rule in rules]
            for chain, rules in chains.items()
        }
        for table, chains in tables(here, 14, filled, denials).items()
    }


@pytest.mark.parametrize(
    ("chain", "table", "rules"),
    [
        pytest.param(
            "KUBE-SERVICES",
            "nat",
            ["-s 127.0.0.0/8 -j RETURN", "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"],
            id="services",
        ),
        pytest.param("KUBE-NODE-PORT", "nat", [], id="node-ports"),
        pytest.param("KUBE-LOAD-BALANCER", "nat", ["-j KUBE-MARK-MASQ"], id="load-balancers"),
        pytest.param("KUBE-PROXY-FIREWALL", "filter", [], id="firewall"),
        pytest.param("KUBE-SOURCE-RANGES-FIREWALL", "filter", ["-j DROP"], id="source-ranges"),
        pytest.param("KUBE-IPVS-OUT-FILTER", "filter", [], id="no-address-is-denied"),
    ],
)
def test_empty_sets_have_no_rules(chain: str, table: str, rules: list[str]) -> None:
    assert rules == list(tables_with()[table][chain])


def test_rules_that_look_into_empty_sets_all_the_same() -> None:
    found = tables_with()["filter"]
    assert len(found["KUBE-IPVS-FILTER"]) == 6
    assert len(found["KUBE-NODE-PORT"]) == 1


def test_every_set_is_looked_into() -> None:
    text = restore_text(tables(HERE, 14, frozenset(IpSet), ()))
    assert all(f"--match-set {set_name(set_, Family.IPV4)} dst" in text for set_ in IpSet)


@pytest.mark.parametrize(
    ("detector", "every", "start", "direction"),
    [
        pytest.param(PodInterface("x"), True, "-m", "dst,dst", id="all"),
        pytest.param(HERE.detector, False, "! -s 10.64.0.0/14 -m", "dst,dst", id="not-of-a-range"),
        pytest.param(PodInterface("br0"), False, "! -i br0 -m", "dst,dst", id="not-of-a-bridge"),
        pytest.param(
            PodInterface("cali", prefix=True), False, "! -i cali+ -m", "dst,dst", id="not-a-pod"
        ),
        pytest.param(None, False, "-m", "src,dst", id="pods-are-not-known"),
    ],
)
def test_what_is_masqueraded_on_the_way_to_cluster_ips(
    detector: Detector | None, every: bool, start: str, direction: str
) -> None:
    here = msgspec.structs.replace(HERE, detector=detector, masquerade_all=every)
    assert tables_with(IpSet.CLUSTER_IP, here=here)["nat"]["KUBE-SERVICES"][1] == (
        f'{start} comment --comment "Kubernetes service cluster ip + port for masquerade purpose"'
        f" -m set --match-set KUBE-CLUSTER-IP {direction} -j KUBE-MARK-MASQ"
    )


def test_the_mark_is_that_of_the_bit() -> None:
    (rule,) = tables(HERE, 15, (), ())["nat"]["KUBE-MARK-MASQ"]
    assert rule == "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x8000/0x8000"


def test_addresses_that_this_node_may_not_use() -> None:
    keys = (ServerKey(Protocol.UDP, "203.0.113.7", 53), ServerKey(Protocol.TCP, "fd12::7", 80))
    assert tables_with(denials=keys)["filter"]["KUBE-IPVS-OUT-FILTER"] == [
        "-s 203.0.113.7/32 -m ipvs --vproto 17 --vaddr 203.0.113.7 --vport 53 -j DROP",
        "-s fd12::7/128 -m ipvs --vproto 6 --vaddr fd12::7 --vport 80 -j DROP",
    ]


def test_sctp_node_ports_are_looked_up_with_the_address_and_quotes_are_escaped() -> None:
    here = node(Mode.IPVS, Family.IPV6)
    (rule,) = tables_with(IpSet.NODE_PORT_SCTP_HASH, here=here)["nat"]["KUBE-NODE-PORT"]
    assert rule == (
        '-p sctp -m comment --comment "Kubernetes nodeport SCTP port for masquerade purpose with'
        " type \\'hash ip:port\\'\" -m set --match-set KUBE-6-NODE-PORT-SCTP-HASH dst,dst"
        " -j KUBE-MARK-MASQ"
    )


def test_a_restore_has_every_chain_and_the_jumps_that_are_missing() -> None:
    lines = restore_text(tables(HERE, 14, (), ()), JUMPS[:1]).splitlines()
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


def test_jumps_that_are_missing() -> None:
    found = tables_in(SAVED)
    found["filter"] = {}
    missing = missing_jumps(found)
    assert [jump for jump in JUMPS if jump != JUMPS[1]] == missing
