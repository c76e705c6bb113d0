"""What of the kernel's rules, sets and virtual servers is kube-proxy's, and how it goes."""

import re

import pytest

from dataplane.leftover_rules import rules
from kubeproxy.dataplane.leftovers import (
    Removal,
    chain_removal,
    is_own_chain,
    own_servers,
    own_sets,
)
from kubeproxy.inet import Family, Protocol
from kubeproxy.netlink.ipvs import ServerKey

CASES = [
    pytest.param(mode, family, id=f"{mode}-mode-{family.value}")
    for mode in ("iptables", "ipvs")
    for family in Family
]


def counted(saved: str) -> str:
    """The rules as `iptables-save -c` prints them."""
    return re.sub("^-A", "[7:420] -A", saved, flags=re.MULTILINE)


def restored(saved: str, text: str) -> str:
    """The rules after `iptables-restore --noflush`; refuses what the kernel would."""
    lines = saved.splitlines()
    table = ""
    for command in text.splitlines():
        if command.startswith("*"):
            table = command
        start = lines.index(table)
        end = lines.index("COMMIT", start)
        content = lines[start:end]
        chain = command[1:].split()[0]
        if command.startswith(":"):
            assert command in content
            content = [line for line in content if not line.startswith(f"-A {chain} ")]
        elif command.startswith("-D"):
            content.remove(command.replace("-D", "-A", 1))
        elif command.startswith("-X"):
            chain = command.removeprefix("-X ")
            references = rf"^-A {chain} |-[jg] {chain}$"
            assert not re.findall(references, "\n".join(content), re.MULTILINE)
            content.remove(f":{chain} - [0:0]")
        lines[start:end] = content
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("mode", "family"), CASES)
def test_all_of_kube_proxy_goes_and_all_of_others_stays(mode: str, family: Family) -> None:
    saved, expected = rules(mode, family)
    removal = chain_removal(saved)
    assert expected == restored(saved, removal.text)
    assert (saved.count("\n:KUBE") - expected.count("\n:KUBE"), ()) == (
        removal.chains,
        removal.kept,
    )


@pytest.mark.parametrize(("mode", "family"), CASES)
def test_counters_make_no_difference(mode: str, family: Family) -> None:
    saved, _ = rules(mode, family)
    assert chain_removal(saved) == chain_removal(counted(saved))


@pytest.mark.parametrize(("mode", "family"), CASES)
def test_where_kube_proxy_never_was_there_is_nothing_to_do(mode: str, family: Family) -> None:
    assert chain_removal(rules(mode, family)[1]) == Removal()


BUILT_IN = ":PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n"
SHOP = "KUBE-SVC-KF6JIFRXY5GKM5GS"


def nat(*lines: str) -> str:
    return "\n".join(["*nat", f"{BUILT_IN}{lines[0]}", *lines[1:], "COMMIT", ""])


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        pytest.param("", Removal(), id="no-tables"),
        pytest.param(
            nat(
                ":KUBE-SERVICES - [0:0]", '-A PREROUTING -m comment --comment "a" -j KUBE-SERVICES'
            ),
            Removal(
                "*nat\n"
                ":KUBE-SERVICES - [0:0]\n"
                '-D PREROUTING -m comment --comment "a" -j KUBE-SERVICES\n'
                "-X KUBE-SERVICES\n"
                "COMMIT\n",
                chains=1,
            ),
            id="a-jump-and-its-chain",
        ),
        pytest.param(
            nat(
                ":KUBE-SERVICES - [0:0]",
                "-A PREROUTING -j KUBE-SERVICES",
                "-A PREROUTING -g KUBE-SERVICES",
                "-A PREROUTING -j KUBE-SERVICES",
            ),
            Removal(
                "*nat\n"
                ":KUBE-SERVICES - [0:0]\n"
                "-D PREROUTING -j KUBE-SERVICES\n"
                "-D PREROUTING -g KUBE-SERVICES\n"
                "-D PREROUTING -j KUBE-SERVICES\n"
                "-X KUBE-SERVICES\n"
                "COMMIT\n",
                chains=1,
            ),
            id="every-one-of-several-jumps",
        ),
        pytest.param(
            nat(
                ":MINE - [0:0]\n:KUBE-MARK-MASQ - [0:0]",
                "-A MINE -j KUBE-MARK-MASQ",
                "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            ),
            Removal(kept=("nat KUBE-MARK-MASQ",)),
            id="the-marking-chain-that-others-mark-through-stays",
        ),
        pytest.param(
            nat(
                ":KUBE-MARK-MASQ - [0:0]",
                "-A PREROUTING -s 10.0.0.1/32 -j KUBE-MARK-MASQ",
                "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            ),
            Removal(kept=("nat KUBE-MARK-MASQ",)),
            id="also-from-a-built-in-chain-where-kube-proxy-has-no-such-rule",
        ),
        pytest.param(
            nat(
                f":MINE - [0:0]\n:KUBE-SERVICES - [0:0]\n:{SHOP} - [0:0]",
                "-A MINE -j KUBE-SERVICES",
                f"-A KUBE-SERVICES -j {SHOP}",
            ),
            Removal(
                f"*nat\n:KUBE-SERVICES - [0:0]\n:{SHOP} - [0:0]\n-X {SHOP}\nCOMMIT\n",
                chains=1,
                kept=("nat KUBE-SERVICES",),
            ),
            id="a-chain-that-others-use-stays-without-rules",
        ),
        pytest.param(
            nat(":MINE - [0:0]\n:KUBE-SERVICES - [0:0]", "-A MINE -j KUBE-SERVICES"),
            Removal(kept=("nat KUBE-SERVICES",)),
            id="and-is-left-alone-the-second-time",
        ),
        pytest.param(
            nat(":MINE - [0:0]", r'-A MINE -m comment --comment "\" -j KUBE-SERVICES" -j ACCEPT'),
            Removal(),
            id="a-comment-is-no-jump",
        ),
        pytest.param(
            "*raw\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n",
            Removal(),
            id="tables-that-kube-proxy-never-uses-are-not-looked-at",
        ),
    ],
)
def test_what_is_given_to_iptables_restore(saved: str, expected: Removal) -> None:
    assert expected == chain_removal(saved)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        pytest.param("KUBE-SERVICES", True, id="a-fixed-name"),
        pytest.param("KUBE-IPVS-FILTER", True, id="of-ipvs-mode"),
        pytest.param("KUBE-XLB-WZELZKRRI3A3EPWR", True, id="of-an-older-release"),
        pytest.param("KUBE-SEP-WZELZKRRI3A3EPWR", True, id="with-a-hash"),
        pytest.param("KUBE-SEP-WZELZKRRI3A3EPWR2", False, id="too-long-for-a-hash"),
        pytest.param("KUBE-FW-FRONT", False, id="no-hash"),
        pytest.param("KUBE-FIREWALL", False, id="shared-with-the-kubelet"),
        pytest.param("KUBE-KUBELET-CANARY", False, id="of-the-kubelet"),
        pytest.param("KUBE-IPTABLES-HINT", False, id="of-the-kubelet-too"),
        pytest.param("KUBE-ROUTER-SERVICES", False, id="of-kube-router"),
        pytest.param("PREROUTING", False, id="built-in"),
    ],
)
def test_whose_chain_it_is(chain: str, expected: bool) -> None:
    assert expected == is_own_chain(chain)


def test_whose_sets_they_are() -> None:
    listed = (
        "KUBE-CLUSTER-IP\nblocklist\nKUBE-6-LOAD-BALANCER-SOURCE-CID\n"
        "KUBE-SRC-XYZ\nKUBE-NODE-PORT-LOCAL-SCTP-HASH\nKUBE-6-NODE-PORT-LOCAL-SCTP-HAS\n"
    )
    assert own_sets(listed) == (
        "KUBE-CLUSTER-IP",
        "KUBE-6-LOAD-BALANCER-SOURCE-CID",
        "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
        "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
    )


WEB = ServerKey(Protocol.TCP, "10.96.50.1", 80)
DNS = ServerKey(Protocol.UDP, "10.96.50.2", 53)
WEB6 = ServerKey(Protocol.TCP, "fd00:10:96::5001", 80)
NODE_PORT = ServerKey(Protocol.TCP, "10.201.1.2", 30080)


@pytest.mark.parametrize(
    ("sets", "bound", "expected"),
    [
        pytest.param("", [], (), id="nothing-known"),
        pytest.param("", ["10.96.50.1"], (WEB,), id="address-on-the-device"),
        pytest.param("add KUBE-CLUSTER-IP 10.96.50.1,tcp:80\n", [], (WEB,), id="in-a-set"),
        pytest.param(
            "add KUBE-6-EXTERNAL-IP fd00:10:96::5001,tcp:80\n", [], (WEB6,), id="in-a-set-of-ipv6"
        ),
        pytest.param("add KUBE-CLUSTER-IP 10.96.50.1,udp:80\n", [], (), id="another-protocol"),
        pytest.param("add KUBE-CLUSTER-IP 10.96.50.1,tcp:81\n", [], (), id="another-port"),
        pytest.param("add KUBE-NODE-PORT-TCP 30080\n", [], (NODE_PORT,), id="node-port"),
        pytest.param("add KUBE-NODE-PORT-UDP 30080\n", [], (), id="node-port-of-udp"),
        pytest.param("add KUBE-HEALTH-CHECK-NODE-PORT 30080\n", [], (), id="no-node-port"),
        pytest.param(
            "add KUBE-LOOP-BACK 10.96.50.1,tcp:80,10.96.50.1\n", [], (), id="an-endpoint"
        ),
        pytest.param("add mine 10.96.50.1,tcp:80\n", [], (), id="a-set-of-others"),
        pytest.param(
            "create KUBE-CLUSTER-IP hash:ip,port family inet hashsize 1024 maxelem 65536\n",
            [],
            (),
            id="an-empty-set",
        ),
    ],
)
def test_whose_virtual_servers_they_are(
    sets: str, bound: list[str], expected: tuple[ServerKey, ...]
) -> None:
    assert expected == own_servers((WEB, DNS, WEB6, NODE_PORT), sets, bound)
