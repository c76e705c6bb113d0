"""Two ways to write a rule are one rule, and two rules are two."""

import pytest

from kubeproxy.dataplane.iptables.canonical import canonical


@pytest.mark.parametrize(
    ("ours", "listed"),
    [
        pytest.param(
            "-m tcp -p tcp -d 10.0.0.1 --dport 80 -j KUBE-SVC-A",
            "-d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A",
            id="order-and-mask",
        ),
        pytest.param("-s fd00::1 -j X", "-s fd00::1/128 -j X", id="mask-of-ipv6"),
        pytest.param(
            "-m udp -p udp -j DNAT --to-destination 10.0.0.1:53",
            "-p udp -j DNAT --to-destination 10.0.0.1:53",
            id="a-match-that-the-protocol-implies",
        ),
        pytest.param(
            '-m comment --comment "shop/web: a \\"quote\\" -j X" -j Y', "-j Y", id="quoted-comment"
        ),
        pytest.param("-m comment --comment 'two words' -j Y", "-j Y", id="comment-of-a-shell"),
        pytest.param(
            '-m comment --comment "web" -j Y', "-m comment --comment web -j Y", id="short-comment"
        ),
        pytest.param('-m comment --comment "nothing else"', "", id="comment-only"),
        pytest.param(
            "-m statistic --mode random --probability 0.3333333333 -j X",
            "-m statistic --mode random --probability 0.33333333349 -j X",
            id="a-chance-that-the-kernel-rounds",
        ),
        pytest.param("-j REJECT", "-j REJECT --reject-with icmp-port-unreachable", id="reject"),
        pytest.param("-j REJECT", "-j REJECT --reject-with icmp6-port-unreachable", id="reject-6"),
        pytest.param(
            "-m recent --name KUBE-SEP-A --rcheck --seconds 60 --reap -j KUBE-SEP-A",
            "-m recent --rcheck --seconds 60 --reap --name KUBE-SEP-A --mask 255.255.255.255"
            " --rsource -j KUBE-SEP-A",
            id="recent",
        ),
        pytest.param(
            "-m recent --name KUBE-SEP-A --set -j Y",
            "-m recent --set --name KUBE-SEP-A --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
            " --rsource -j Y",
            id="recent-of-ipv6",
        ),
        pytest.param(
            "-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT",
            "! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate ESTABLISHED,DNAT,RELATED",
            id="negations-and-states",
        ),
        pytest.param(
            "-m mark ! --mark 0x00004000/0x00004000 -j RETURN",
            "-m mark ! --mark 0x4000/0x4000 -j RETURN",
            id="mark",
        ),
        pytest.param("-m mark --mark 0x1", "-m mark --mark 0x1/0xffffffff", id="mark-of-all-bits"),
        pytest.param(
            "-j MARK --or-mark 0x00004000", "-j MARK --set-xmark 0x4000/0x4000", id="or-mark"
        ),
        pytest.param(
            "-j MARK --xor-mark 0x00004000", "-j MARK --set-xmark 0x4000/0x0", id="xor-mark"
        ),
        pytest.param(
            "-m nfacct --nfacct-name drops -j DROP",
            "-m nfacct --nfacct-name  drops -j DROP",
            id="a-space-too-many",
        ),
    ],
)
def test_the_same_rule(ours: str, listed: str) -> None:
    assert canonical(f"-A CHAIN {ours}") == canonical(f"-A CHAIN {listed}")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("-j X", "-g X", id="another-kind-of-jump"),
        pytest.param("-s 10.0.0.1 -j X", "! -s 10.0.0.1 -j X", id="negated"),
        pytest.param("-s 10.0.0.1 -j X", "-d 10.0.0.1 -j X", id="another-direction"),
        pytest.param("-m tcp -p tcp --dport 80", "-m udp -p udp --dport 80", id="protocol"),
        pytest.param("-m socket -j X", "-j X", id="a-match-without-options"),
        pytest.param("-j REJECT", "-j REJECT --reject-with tcp-reset", id="rejected-otherwise"),
        pytest.param("-j X", "", id="no-target"),
        pytest.param(
            "-m statistic --mode random --probability 0.3333333333 -j X",
            "-m statistic --mode random --probability 0.33333333535 -j X",
            id="another-chance",
        ),
    ],
)
def test_another_rule(one: str, other: str) -> None:
    assert canonical(f"-A CHAIN {one}") != canonical(f"-A CHAIN {other}")
