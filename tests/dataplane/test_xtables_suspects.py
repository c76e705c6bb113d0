"""Which match or target is to blame, from rules that were tried alone."""

from collections.abc import Collection

import pytest

from kubeproxy.dataplane.xtables_suspects import blamed, modules, suspects

TEXT = """\
*filter
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "-m physdev" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "other words" -m mark --mark 0x1/0x1 -j ACCEPT
COMMIT
*nat
:KUBE-SVC-A - [0:0]
:KUBE-SEP-A - [0:0]
-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A
-A KUBE-SEP-A -m comment --comment "s" -m tcp -p tcp -j DNAT --to-destination 10.0.0.1:80
COMMIT
*filter
-I FORWARD -m comment --comment "a b" -j KUBE-FORWARD
COMMIT
"""


def test_one_rule_of_each_kind_with_the_chains_of_its_table() -> None:
    found = suspects(TEXT)
    assert [
        {"conntrack"},
        {"comment", "mark"},
        {"comment"},
        {"statistic"},
        {"comment", "tcp", "DNAT"},
    ] == list(found.values())
    assert list(found)[3] == (
        "*nat\n:KUBE-SVC-A - [0:0]\n:KUBE-SEP-A - [0:0]\n"
        "-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A\nCOMMIT\n"
    )


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        pytest.param((), (), id="each-works-alone"),
        pytest.param(("statistic",), ("statistic",), id="one-match"),
        pytest.param(("mark", "statistic"), ("mark", "statistic"), id="two-matches"),
        pytest.param(("tcp",), ("DNAT", "tcp"), id="what-is-always-used-together"),
    ],
)
def test_what_only_refused_rules_use_is_to_blame(
    refused: Collection[str], expected: tuple[str, ...]
) -> None:
    tried = suspects(TEXT)
    assert expected == blamed(tried, lambda alone: tried[alone].isdisjoint(refused))


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        pytest.param(("recent",), "xt_recent", id="most-are-called-after-their-match"),
        pytest.param(("tcp", "udp"), "xt_tcpudp", id="one-module-for-two"),
        pytest.param(("DNAT", "MARK"), "xt_nat, xt_mark", id="targets"),
        pytest.param(("REJECT",), "ipt_REJECT or ip6t_REJECT", id="one-for-each-family"),
    ],
)
def test_the_modules_of_matches_and_targets(uses: Collection[str], expected: str) -> None:
    assert expected == modules(uses)
