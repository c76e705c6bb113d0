"""What of the kernel's rules, sets and virtual servers is kube-proxy's, and how it goes."""

import re

import pytest

from dataplane.leftover_rules import (
    LEFTOVERS,
    Leftover,
    kubelet,
    listing,
    others,
    rules,
    rules_without_kubelet,
    sets,
)
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.ipvs.leftovers import own_servers, own_sets
from kubeproxy.dataplane.xtables_chains import (
    Removal,
    chain_removals,
    deletion,
    is_kubelets_chain,
    is_own_chain,
    own_by_mode,
)
from kubeproxy.linux.netlink.ipvs import ServerKey

CASES = [
    pytest.param(leftover, family, id=f"{leftover}-{family.value}")
    for leftover in LEFTOVERS
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


def text_of(removals: tuple[Removal, ...]) -> str:
    return "".join(
        removal.text + deletion(removal.table, removal.chains)
        for removal in removals
        if removal.text
    )


@pytest.mark.parametrize(("leftover", "family"), CASES)
def test_all_of_kube_proxy_goes_and_all_of_others_stays(
    leftover: Leftover, family: Family
) -> None:
    expected = listing(others(family), kubelet(family))
    saved = listing(others(family), kubelet(family), rules(leftover, family))
    removals = chain_removals(saved)
    assert expected == restored(saved, text_of(removals))
    gone = saved.count("\n:KUBE") - expected.count("\n:KUBE")
    assert gone == sum(len(removal.chains) for removal in removals)
    assert {removal.table: removal.kubelets for removal in removals} == {
        "mangle": ("KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"),
        "filter": ("KUBE-FIREWALL", "KUBE-KUBELET-CANARY"),
        "nat": ("KUBE-KUBELET-CANARY", "KUBE-MARK-DROP"),
    }
    assert not any(removal.kept for removal in removals)


@pytest.mark.parametrize(("leftover", "family"), CASES)
def test_counters_make_no_difference(leftover: Leftover, family: Family) -> None:
    saved = listing(others(family), rules_without_kubelet(leftover, family))
    assert chain_removals(saved) == chain_removals(counted(saved))


@pytest.mark.parametrize("family", Family)
def test_where_kube_proxy_never_was_there_is_nothing_to_do(family: Family) -> None:
    assert text_of(chain_removals(listing(others(family), kubelet(family)))) == ""


@pytest.mark.parametrize(("leftover", "family"), CASES)
def test_all_sets_go(leftover: Leftover, family: Family) -> None:
    made = re.findall(r"create (\S+)", sets(leftover, family))
    assert tuple(made) == own_sets(made)


BUILT_IN = ":PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n"
SHOP = "KUBE-SVC-KF6JIFRXY5GKM5GS"


def nat(*lines: str) -> str:
    return "\n".join(["*nat", f"{BUILT_IN}{lines[0]}", *lines[1:], "COMMIT", ""])


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        pytest.param("", None, id="no-tables"),
        pytest.param(
            nat(
                ":KUBE-SERVICES - [0:0]", '-A PREROUTING -m comment --comment "a" -j KUBE-SERVICES'
            ),
            Removal(
                "nat",
                "*nat\n"
                ":KUBE-SERVICES - [0:0]\n"
                '-D PREROUTING -m comment --comment "a" -j KUBE-SERVICES\n'
                "COMMIT\n",
                chains=("KUBE-SERVICES",),
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
                "nat",
                "*nat\n"
                ":KUBE-SERVICES - [0:0]\n"
                "-D PREROUTING -j KUBE-SERVICES\n"
                "-D PREROUTING -g KUBE-SERVICES\n"
                "-D PREROUTING -j KUBE-SERVICES\n"
                "COMMIT\n",
                chains=("KUBE-SERVICES",),
            ),
            id="every-one-of-several-jumps",
        ),
        pytest.param(
            nat(
                ":MINE - [0:0]\n:KUBE-MARK-MASQ - [0:0]",
                "-A MINE -j KUBE-MARK-MASQ",
                "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            ),
            Removal("nat", kept={"KUBE-MARK-MASQ": ("-A MINE -j KUBE-MARK-MASQ",)}),
            id="the-marking-chain-that-others-mark-through-stays",
        ),
        pytest.param(
            nat(
                ":KUBE-MARK-MASQ - [0:0]",
                "-A PREROUTING -s 10.0.0.1/32 -j KUBE-MARK-MASQ",
                "-A PREROUTING -s 10.0.0.2/32 -j KUBE-MARK-MASQ",
                "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            ),
            Removal(
                "nat",
                kept={
                    "KUBE-MARK-MASQ": (
                        "-A PREROUTING -s 10.0.0.1/32 -j KUBE-MARK-MASQ",
                        "-A PREROUTING -s 10.0.0.2/32 -j KUBE-MARK-MASQ",
                    )
                },
            ),
            id="also-from-a-built-in-chain-where-kube-proxy-has-no-such-rule",
        ),
        pytest.param(
            nat(
                f":MINE - [0:0]\n:KUBE-SERVICES - [0:0]\n:{SHOP} - [0:0]",
                "-A MINE -j KUBE-SERVICES",
                f"-A KUBE-SERVICES -j {SHOP}",
            ),
            Removal(
                "nat",
                f"*nat\n:KUBE-SERVICES - [0:0]\n:{SHOP} - [0:0]\nCOMMIT\n",
                chains=(SHOP,),
                kept={"KUBE-SERVICES": ("-A MINE -j KUBE-SERVICES",)},
            ),
            id="a-chain-that-others-use-stays-without-rules",
        ),
        pytest.param(
            nat(":MINE - [0:0]\n:KUBE-SERVICES - [0:0]", "-A MINE -j KUBE-SERVICES"),
            Removal("nat", kept={"KUBE-SERVICES": ("-A MINE -j KUBE-SERVICES",)}),
            id="and-is-left-alone-the-second-time",
        ),
        pytest.param(
            nat(":MINE - [0:0]", r'-A MINE -m comment --comment "\" -j KUBE-SERVICES" -j ACCEPT'),
            Removal("nat"),
            id="a-comment-is-no-jump",
        ),
        pytest.param(
            nat(":KUBE-MARK-DROP - [0:0]\n:KUBE-NODEPORTS - [0:0]"),
            Removal(
                "nat",
                "*nat\n:KUBE-NODEPORTS - [0:0]\n:KUBE-MARK-DROP - [0:0]\nCOMMIT\n",
                chains=("KUBE-NODEPORTS", "KUBE-MARK-DROP"),
            ),
            id="a-chain-that-the-kubelet-would-have-filled",
        ),
        pytest.param(
            nat(":KUBE-MARK-DROP - [0:0]"),
            Removal("nat", kubelets=("KUBE-MARK-DROP",)),
            id="and-one-that-it-is-about-to-fill",
        ),
        pytest.param(
            nat(
                ":KUBE-MARK-DROP - [0:0]\n:KUBE-NODEPORTS - [0:0]",
                "-A PREROUTING -s 10.0.0.1/32 -j KUBE-MARK-DROP",
            ),
            Removal(
                "nat",
                "*nat\n:KUBE-NODEPORTS - [0:0]\nCOMMIT\n",
                chains=("KUBE-NODEPORTS",),
                kept={"KUBE-MARK-DROP": ("-A PREROUTING -s 10.0.0.1/32 -j KUBE-MARK-DROP",)},
            ),
            id="and-one-that-others-drop-through",
        ),
        pytest.param(
            "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n:KUBE-FORWARD - [0:0]\n"
            "-A INPUT -j KUBE-FIREWALL\nCOMMIT\n",
            Removal(
                "filter",
                "*filter\n:KUBE-FORWARD - [0:0]\n:KUBE-FIREWALL - [0:0]\n"
                "-D INPUT -j KUBE-FIREWALL\nCOMMIT\n",
                chains=("KUBE-FORWARD", "KUBE-FIREWALL"),
            ),
            id="an-empty-firewall-as-kube-proxy-makes-it-for-ipv6",
        ),
        pytest.param(
            "*raw\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\nCOMMIT\n",
            None,
            id="tables-that-kube-proxy-never-uses-are-not-looked-at",
        ),
    ],
)
def test_what_is_given_to_iptables_restore(saved: str, expected: Removal | None) -> None:
    assert ((expected,) if expected else ()) == chain_removals(saved)


@pytest.mark.parametrize(
    ("table", "chain", "owner"),
    [
        pytest.param("nat", "KUBE-SERVICES", "kube-proxy", id="a-fixed-name"),
        pytest.param("filter", "KUBE-IPVS-FILTER", "kube-proxy", id="of-ipvs-mode"),
        pytest.param("nat", "KUBE-PORTALS-HOST", "userspace mode", id="of-userspace-mode"),
        pytest.param("nat", "KUBE-XLB-WZELZKRRI3A3EPWR", "kube-proxy", id="of-an-older-release"),
        pytest.param("nat", "KUBE-SEP-WZELZKRRI3A3EPWR", "kube-proxy", id="with-a-hash"),
        pytest.param("nat", "KUBE-SEP-WZELZKRRI3A3EPWR2", "others", id="too-long-for-a-hash"),
        pytest.param("nat", "KUBE-FW-FRONT", "others", id="no-hash"),
        pytest.param("nat", "KUBE-FIREWALL", "kube-proxy", id="of-ipvs-mode-until-1.24"),
        pytest.param("filter", "KUBE-FIREWALL", "the kubelet", id="of-the-same-name"),
        pytest.param("nat", "KUBE-MARK-DROP", "the kubelet", id="that-drops"),
        pytest.param("filter", "KUBE-MARK-DROP", "others", id="of-that-name-elsewhere"),
        pytest.param("filter", "KUBE-KUBELET-CANARY", "the kubelet", id="of-the-kubelet"),
        pytest.param("mangle", "KUBE-IPTABLES-HINT", "the kubelet", id="of-the-kubelet-too"),
        pytest.param("filter", "KUBE-ROUTER-SERVICES", "others", id="of-kube-router"),
        pytest.param("nat", "PREROUTING", "others", id="built-in"),
    ],
)
def test_whose_chain_it_is(table: str, chain: str, owner: str) -> None:
    assert (owner in {"kube-proxy", "userspace mode"}) == is_own_chain(table, chain)
    assert (owner == "the kubelet") == is_kubelets_chain(table, chain)
    assert (owner == "userspace mode") == bool(own_by_mode([chain]).userspace)


def test_whose_sets_they_are() -> None:
    listed = (
        *("KUBE-CLUSTER-IP", "blocklist", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "KUBE-SRC-XYZ"),
        *("KUBE-NODE-PORT-LOCAL-SCTP-HASH", "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"),
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
CALLS = ServerKey(Protocol.SCTP, "10.201.1.2", 30080)


@pytest.mark.parametrize(
    ("saved", "bound", "expected"),
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
        pytest.param("add KUBE-NODE-PORT-SCTP 30080\n", [], (CALLS,), id="node-port-of-sctp"),
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
    saved: str, bound: list[str], expected: tuple[ServerKey, ...]
) -> None:
    assert expected == own_servers((WEB, DNS, WEB6, NODE_PORT, CALLS), saved, bound)
