"""`--cleanup`, and the start in nftables mode, in a kernel full of what kube-proxy leaves."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane import leftover_rules
from dataplane.leftover_rules import IPTABLES, IPVS, LEFTOVERS, Leftover
from fakes.programs import only_in
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.cleanup import NotAllRemoved, clean_up
from kubeproxy.linux.legacytables import legacy_chains
from kubeproxy.linux.links import delete_dummy
from kubeproxy.linux.tools import RuleKind
from lab.cleaning import cleaned, program, restore_beside, running, saved, set_names, wait
from lab.launch import KUBE_PROXY
from lab.namespaces import Namespace

BACKENDS = [
    pytest.param(backend, family, id=program(backend, family))
    for backend in RuleKind
    for family in Family
]


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A kernel without rules."""
    namespace = Namespace("cleanup")
    yield namespace
    namespace.close()


def tables(node: Namespace) -> list[str]:
    return node.run(["nft", "list", "tables"]).splitlines()


def load(node: Namespace, leftover: Leftover, backend: RuleKind, family: Family) -> None:
    """Do what a kube-proxy of that release did, as far as this kernel can."""
    node.run(["ipset", "restore", "-exist"], leftover_rules.sets(leftover, family))
    rules = leftover_rules.rules_without_kubelet(leftover, family)
    restore_beside(node, backend, family, leftover_rules.ordinary(rules))


def test_nothing_there(node: Namespace) -> None:
    code, said = cleaned(node)
    assert (code, said.count("\n")) == (0, 1)
    assert "There is nothing to remove" in said


def test_the_tables_of_nftables_mode_go_and_others_stay(node: Namespace) -> None:
    node.run(
        ["nft", "-f", "-"],
        """
        table ip kube-proxy { chain services { accept; }; chain entry { jump services; }; }
        table ip6 kube-proxy { map m { type ipv4_addr : verdict; }; }
        table inet kube-proxy { }
        table ip firewall { chain entry { type filter hook input priority 0; }; }
        """,
    )
    code, said = cleaned(node)
    assert code == 0
    assert tables(node) == ["table inet kube-proxy", "table ip firewall"]
    assert 'what="nftables table ip kube-proxy"' in said
    assert 'what="nftables table ip6 kube-proxy"' in said


def test_everything_at_once(node: Namespace) -> None:
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    for family in Family:
        load(node, IPVS, RuleKind.LEGACY, family)
        load(node, IPTABLES, RuleKind.NFT, family)
    assert cleaned(node)[0] == 0
    assert (set_names(node), "table ip kube-proxy" in tables(node)) == ([], False)
    assert "There is nothing to remove" in cleaned(node)[1]


def test_half_of_what_a_mode_left(node: Namespace) -> None:
    """It was partly removed by hand: jumps without rules, rules and sets without jumps."""
    load(node, IPVS, RuleKind.NFT, Family.IPV4)
    load(node, IPTABLES, RuleKind.LEGACY, Family.IPV6)
    node.run(["iptables-nft", "-t", "filter", "-F"])
    node.run(["iptables-nft", "-t", "nat", "-F", "PREROUTING"])
    node.run(["iptables-nft", "-t", "nat", "-F", "KUBE-SERVICES"])
    node.run(["iptables-nft", "-t", "nat", "-F", "KUBE-LOAD-BALANCER"])
    node.run(["iptables-nft", "-t", "nat", "-X", "KUBE-LOAD-BALANCER"])
    node.run(["ipset", "destroy", "KUBE-LOAD-BALANCER-FW"])
    node.run(["ip6tables-legacy", "-t", "nat", "-F"])
    code, said = cleaned(node)
    assert (code, set_names(node)) == (0, []), said
    assert "KUBE" not in saved(node, RuleKind.NFT, Family.IPV4)
    assert "KUBE" not in saved(node, RuleKind.LEGACY, Family.IPV6)
    assert "There is nothing to remove" in cleaned(node)[1]


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_a_chain_that_others_use_stays_and_they_are_named(
    node: Namespace, backend: RuleKind, family: Family
) -> None:
    load(node, IPTABLES, backend, family)
    theirs = "-A MINE -p tcp -m tcp --dport 8080 -j KUBE-MARK-MASQ"
    restore_beside(node, backend, family, f"*nat\n:MINE - [0:0]\n{theirs}\nCOMMIT\n")
    code, said = cleaned(node)
    assert (
        f'program="{program(backend, family)}" table="nat" chain="KUBE-MARK-MASQ" rules="{theirs}"'
    ) in said
    left = [line for line in saved(node, backend, family).splitlines() if "KUBE-MARK" in line]
    assert (code, len(left)) == (0, 3), said
    assert "KUBE-SERVICES" not in saved(node, backend, family)
    code, said = cleaned(node)
    assert (code, theirs in said, "There is nothing to remove" in said) == (0, True, True)


def test_one_step_that_fails_keeps_no_other_from_being_done(node: Namespace) -> None:
    load(node, IPVS, RuleKind.NFT, Family.IPV4)
    rule = ["INPUT", "-m", "set", "--match-set", "KUBE-IPVS-IPS", "dst"]
    node.run(["ip", "link", "add", "kube-ipvs0", "type", "bridge"])
    node.run(["iptables-nft", "-A", *rule])
    node.run(["nft", "add", "map", "ip", "nat", "mine", "{ type ipv4_addr : verdict; }"])
    node.run(["nft", "add", "element", "ip", "nat", "mine", "{ 10.0.0.1 : jump KUBE-SERVICES }"])
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    code, said = cleaned(node)
    assert code == 1
    assert "encountered an error while tearing down rules: " in said
    assert "CHAIN_DEL failed (Device or resource busy): chain KUBE-SERVICES;" in said
    assert "the device kube-ipvs0 stays, because it is no dummy but of kind bridge" in said
    assert (
        "the ipset KUBE-IPVS-IPS stays, because rules use it:"
        " iptables-nft -A INPUT -m set --match-set KUBE-IPVS-IPS dst"
    ) in said
    assert set_names(node) == ["KUBE-IPVS-IPS"]
    assert "table ip kube-proxy" not in tables(node)
    left = [line for line in saved(node, RuleKind.NFT, Family.IPV4).splitlines() if "KUBE" in line]
    assert left == [f"-A {' '.join(rule)}", ":KUBE-SERVICES - [0:0]"]
    node.run(["nft", "delete", "map", "ip", "nat", "mine"])
    node.run(["iptables-nft", "-D", *rule])
    node.run(["ip", "link", "del", "kube-ipvs0"])
    assert (cleaned(node)[0], set_names(node)) == (0, [])


def test_without_the_capability(node: Namespace) -> None:
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    code, said = cleaned(node, "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    assert code == 1
    assert "nothing was removed: that needs CAP_NET_ADMIN in this network namespace" in said
    assert tables(node) == ["table ip kube-proxy"]


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only_in(tmp_path, monkeypatch)


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_tools_are_not_missed_where_nothing_is_of_kube_proxy(
    node: Namespace, backend: RuleKind, family: Family, request: pytest.FixtureRequest
) -> None:
    restore_beside(node, backend, family, leftover_rules.kubelet(family))
    node.run(["ipset", "create", "blocklist", "hash:ip"])
    request.getfixturevalue("no_tools")
    with node.entered():
        assert clean_up() == ()


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_iptables_is_missed_where_something_is(
    node: Namespace, backend: RuleKind, family: Family, request: pytest.FixtureRequest
) -> None:
    load(node, IPTABLES, backend, family)
    request.getfixturevalue("no_tools")
    expected = (
        f"what kube-proxy left in the tables of {program(backend, family)} stays: .*"
        " install iptables$"
    )
    with node.entered(), pytest.raises(NotAllRemoved, match=expected):
        clean_up()


@pytest.mark.parametrize("family", Family)
def test_the_kernel_names_the_chains_that_iptables_legacy_lists(
    node: Namespace, family: Family
) -> None:
    with node.entered():
        assert legacy_chains(family) == ()
        load(node, IPTABLES, RuleKind.LEGACY, family)
        found = legacy_chains(family)
    tables = re.split(r"^\*(\S+)\n", saved(node, RuleKind.LEGACY, family), flags=re.MULTILINE)
    listed = [
        (table, name)
        for table, text in zip(tables[1::2], tables[2::2], strict=True)
        for name in re.findall(r"^:(\S+) -", text, re.MULTILINE)
    ]
    assert len(listed) > 10
    assert sorted(listed) == sorted(found)


def test_ipset_is_missed_where_sets_are(node: Namespace, request: pytest.FixtureRequest) -> None:
    node.run(["ipset", "create", "KUBE-CLUSTER-IP", "hash:ip,port"])
    node.run(["ipset", "create", "blocklist", "hash:ip"])
    request.getfixturevalue("no_tools")
    expected = "the sets KUBE-CLUSTER-IP stay, .*: there is no ipset .*: install it$"
    with node.entered():
        for _ in range(2):
            with pytest.raises(NotAllRemoved, match=expected):
                clean_up()


def test_what_is_gone_already_is_no_error(node: Namespace) -> None:
    with node.entered():
        assert not delete_dummy("kube-ipvs0")


# --- starting in nftables mode ----------------------------------------------------------------


@pytest.mark.parametrize(
    "leftover",
    [
        each
        for each in LEFTOVERS
        if each.release in {"1.13", "1.24", "1.35"} and each.is_dual_stack
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", RuleKind)
def test_the_first_sync_is_followed_by_the_end_of_other_modes(
    node: Namespace, leftover: Leftover, backend: RuleKind, tmp_path: Path
) -> None:
    for family in Family:
        restore_beside(node, backend, family, leftover_rules.kubelet(family))
    before = {family: saved(node, backend, family) for family in Family}
    for family in Family:
        node.run(["ipset", "restore", "-exist"], leftover_rules.sets(leftover, family))
        rules = leftover_rules.ordinary(leftover_rules.rules(leftover, family))
        restore_beside(node, backend, family, rules)
    log = tmp_path / "log"
    manifests = tmp_path / "manifests"
    manifests.mkdir()

    def is_clean() -> bool:
        after = {family: saved(node, backend, family) for family in Family}
        return (after, set_names(node)) == (before, [])

    with running(node, manifests, log, ["--proxy-mode=nftables", "-v=2"]):
        wait(is_clean, log.read_text)
    said = log.read_text()
    assert said.rindex('"Synced"') < said.index('"Removed"')
    assert {"table ip kube-proxy", "table ip6 kube-proxy"} <= {*tables(node)}


# The directory where Debian keeps iptables is empty for the command.
WITHOUT_TOOLS = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    'mount -t tmpfs none /usr/sbin && exec "$@"',
    "",
]


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_rules_that_remain_for_lack_of_tools_are_an_error_and_the_status_is_not_well(
    node: Namespace, tmp_path: Path, backend: RuleKind, family: Family
) -> None:
    load(node, IPTABLES, backend, family)
    before = saved(node, backend, family)
    log, manifests, socket = (tmp_path / name for name in ("log", "manifests", "socket"))
    manifests.mkdir()
    flags = ["--proxy-mode=nftables", f"--status-socket={socket}"]
    with running(node, manifests, log, flags, WITHOUT_TOOLS):
        wait(lambda: "Rules of another mode remain" in log.read_text(), log.read_text)
        status = [*KUBE_PROXY, "status", f"--socket={socket}"]
        shown = subprocess.run(status, capture_output=True, text=True, check=False)
    (line,) = (line for line in log.read_text().splitlines() if "another mode" in line)
    assert line.startswith("E")
    assert f"what kube-proxy left in the tables of {program(backend, family)} stays" in line
    assert shown.returncode == 1
    assert "Rules of another mode remain in the kernel" in shown.stdout
    assert "install iptables" in shown.stdout
    assert saved(node, backend, family) == before
