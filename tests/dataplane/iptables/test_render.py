"""What is restored, whole: golden texts in both families. `--golden` rewrites them."""

from pathlib import Path

import msgspec
import pytest

from dataplane.iptables.clusters import CLUSTERS, kestrel, table
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.describe import describe
from kubeproxy.dataplane.iptables.render import JUMPS, Written, restore_text
from kubeproxy.dataplane.iptables.setup import COUNTERS, Options

GOLDEN = Path(__file__).with_name("golden")
COUNTING = Options(counters=frozenset(COUNTERS))


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("name", CLUSTERS)
def test_golden(name: str, family: Family, request: pytest.FixtureRequest) -> None:
    file = GOLDEN / f"{name}.{family.value}.restore"
    actual = describe(table(name, family), kestrel(family), COUNTING)
    if request.config.getoption("--golden"):
        file.write_text(actual)
    assert file.read_text() == actual


def test_a_kernel_that_lacks_counters_and_forgives_tcp() -> None:
    options = Options(masquerade_bit=20, drops_invalid=False)
    assert restore_text(kestrel(Family.IPV6), options, Written((), {})) == (
        "*filter\n"
        ":KUBE-SERVICES - [0:0]\n"
        ":KUBE-EXTERNAL-SERVICES - [0:0]\n"
        ":KUBE-FORWARD - [0:0]\n"
        ":KUBE-NODEPORTS - [0:0]\n"
        ":KUBE-PROXY-FIREWALL - [0:0]\n"
        '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules"'
        " -m mark --mark 0x00100000/0x00100000 -j ACCEPT\n"
        '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule"'
        " -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
        "COMMIT\n"
        "*nat\n"
        ":KUBE-SERVICES - [0:0]\n"
        ":KUBE-NODEPORTS - [0:0]\n"
        ":KUBE-POSTROUTING - [0:0]\n"
        ":KUBE-MARK-MASQ - [0:0]\n"
        "-A KUBE-POSTROUTING -m mark ! --mark 0x00100000/0x00100000 -j RETURN\n"
        "-A KUBE-POSTROUTING -j MARK --xor-mark 0x00100000\n"
        '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT"'
        " -j MASQUERADE --random-fully\n"
        "-A KUBE-MARK-MASQ -j MARK --or-mark 0x00100000\n"
        '-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be'
        ' the last rule in this chain" -m addrtype --dst-type LOCAL ! -d ::1/128'
        " -j KUBE-NODEPORTS\n"
        "COMMIT\n"
    )


def test_invalid_packets_are_dropped_also_where_nothing_counts_them() -> None:
    text = restore_text(kestrel(), Options(), Written((), {}))
    assert "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n" in text


def test_without_localhost_node_ports_the_kubelets_chain_is_left_alone() -> None:
    node = msgspec.structs.replace(kestrel(), localhost_node_ports=False)
    assert "KUBE-FIREWALL" not in restore_text(node, Options(), Written((), {}))


def test_stale_chains_are_emptied_and_deleted_where_others_do_not_use_them() -> None:
    written = Written((), {}, deleted={"KUBE-SVC-B", "KUBE-SEP-A"}, emptied={"KUBE-SVC-C"})
    lines = restore_text(kestrel(), Options(), written).splitlines()
    heads = [line for line in lines if line.startswith((":KUBE-SVC-", ":KUBE-SEP-"))]
    assert heads == [":KUBE-SEP-A - [0:0]", ":KUBE-SVC-B - [0:0]", ":KUBE-SVC-C - [0:0]"]
    deleted = [n for n, line in enumerate(lines) if line.startswith("-X ")]
    assert [lines[n] for n in deleted] == ["-X KUBE-SEP-A", "-X KUBE-SVC-B"]
    assert "NOTE: this must be the last rule" in lines[deleted[-1] + 1]


def test_the_jumps_are_in_upstreams_order() -> None:
    assert [(jump.table, jump.chain, jump.target) for jump in JUMPS[-3:]] == [
        ("nat", "POSTROUTING", "KUBE-POSTROUTING"),
        ("filter", "INPUT", "KUBE-FIREWALL"),
        ("filter", "OUTPUT", "KUBE-FIREWALL"),
    ]
    assert JUMPS[-1].words == ("-j", "KUBE-FIREWALL")
    assert " ".join(JUMPS[0].words) == (
        "-m conntrack --ctstate NEW -m comment --comment"
        " kubernetes externally-visible service portals -j KUBE-EXTERNAL-SERVICES"
    )
