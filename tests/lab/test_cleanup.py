"""`--cleanup`, and the start in nftables mode, in a kernel full of what kube-proxy leaves."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dataplane.leftover_rules import rules
from kubeproxy.cleanup import NotAllRemoved, clean_up
from kubeproxy.inet import Family
from kubeproxy.kernel import tools
from kubeproxy.kernel.dummy import delete_dummy
from kubeproxy.kernel.tools import Backend
from lab.namespaces import Namespace

KUBE_PROXY = [sys.executable, "-c", "import sys; from kubeproxy.cli import main; sys.exit(main())"]
PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
SETS = {
    "CLUSTER-IP": "hash:ip,port",
    "IPVS-IPS": "hash:ip",
    "NODE-PORT-TCP": "bitmap:port",
    "HEALTH-CHECK-NODE-PORT": "bitmap:port",
}
BACKENDS = [
    pytest.param(backend, family, id=f"{PROGRAM[family]}-{backend.value}")
    for backend in Backend
    for family in Family
]


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A kernel without rules."""
    namespace = Namespace("cleanup")
    yield namespace
    namespace.close()


def cleaned(node: Namespace, *before: str) -> tuple[int, str]:
    """Run --cleanup; its exit code, and the log without notices about the configuration."""
    command = [*before, *KUBE_PROXY, "--cleanup", "--proxy-mode=nftables"]
    with node.entered():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    return done.returncode, done.stderr


def program(backend: Backend, family: Family, verb: str) -> str:
    return f"{PROGRAM[family]}-{backend.value}-{verb}"


def restore(node: Namespace, backend: Backend, family: Family, text: str) -> None:
    node.run([program(backend, family, "restore")], text)


def saved(node: Namespace, backend: Backend, family: Family) -> str:
    """All rules, without remarks."""
    lines = node.run([program(backend, family, "save")]).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#"))


def tables(node: Namespace) -> list[str]:
    return node.run(["nft", "list", "tables"]).splitlines()


def sets(node: Namespace) -> list[str]:
    return node.run(["ipset", "list", "-n"]).splitlines()


def make_sets(node: Namespace) -> None:
    for prefix, family in (("KUBE-", "inet"), ("KUBE-6-", "inet6")):
        for name, kind in SETS.items():
            size = ["range", "0-65535"] if kind == "bitmap:port" else ["family", family]
            node.run(["ipset", "create", f"{prefix}{name}", kind, *size])


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


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_the_chains_of_iptables_mode_go_and_others_stay(
    node: Namespace, backend: Backend, family: Family
) -> None:
    full, expected = rules("iptables", family)
    restore(node, backend, family, expected)
    expected = saved(node, backend, family)
    restore(node, backend, family, full)
    assert saved(node, backend, family) != expected
    code, said = cleaned(node)
    assert (0, expected) == (code, saved(node, backend, family)), said
    assert f'what="18 {PROGRAM[family]} chains ({backend.value})"' in said
    code, said = cleaned(node)
    assert (0, expected) == (code, saved(node, backend, family))
    assert "There is nothing to remove" in said


@pytest.mark.parametrize("backend", Backend)
def test_what_ipvs_mode_left_goes_and_others_sets_stay(node: Namespace, backend: Backend) -> None:
    make_sets(node)
    node.run(["ipset", "create", "blocklist", "hash:ip"])
    for family in Family:
        restore(node, backend, family, rules("ipvs", family)[0])
    code, said = cleaned(node)
    assert code == 0, said
    assert sets(node) == ["blocklist"]
    for family in Family:
        assert "\n:KUBE-FIREWALL" in saved(node, backend, family)
        assert saved(node, backend, family).count("KUBE") == 2
    assert "There is nothing to remove" in cleaned(node)[1]


def test_everything_at_once(node: Namespace) -> None:
    make_sets(node)
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    for family in Family:
        restore(node, Backend.LEGACY, family, rules("ipvs", family)[0])
        restore(node, Backend.NFT, family, rules("iptables", family)[0])
    assert cleaned(node)[0] == 0
    assert (sets(node), "table ip kube-proxy" in tables(node)) == ([], False)
    assert "There is nothing to remove" in cleaned(node)[1]


def test_one_step_that_fails_keeps_no_other_from_being_done(node: Namespace) -> None:
    make_sets(node)
    node.run(["ip", "link", "add", "kube-ipvs0", "type", "bridge"])
    node.run(["iptables", "-A", "INPUT", "-m", "set", "--match-set", "KUBE-IPVS-IPS", "dst"])
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    code, said = cleaned(node)
    assert code == 1
    assert "encountered an error while tearing down rules: " in said
    assert "the device kube-ipvs0 stays, because it is no dummy but of kind bridge" in said
    assert "ipset destroy KUBE-IPVS-IPS: exit code 1: " in said
    assert (sets(node), tables(node)) == (["KUBE-IPVS-IPS"], ["table ip filter"])


def test_without_the_capability(node: Namespace) -> None:
    node.run(["nft", "add", "table", "ip", "kube-proxy"])
    code, said = cleaned(node, "setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin")
    assert code == 1
    assert "nothing was removed: that needs CAP_NET_ADMIN in this network namespace" in said
    assert tables(node) == ["table ip kube-proxy"]


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_ELSEWHERE", str(tmp_path))


@pytest.mark.usefixtures("no_tools")
def test_tools_are_not_missed_where_nothing_is(node: Namespace) -> None:
    with node.entered():
        assert clean_up() == ()


@pytest.mark.parametrize(("backend", "family"), BACKENDS)
def test_tools_are_missed_where_something_is(
    node: Namespace, backend: Backend, family: Family, request: pytest.FixtureRequest
) -> None:
    restore(node, backend, family, rules("iptables", family)[0])
    request.getfixturevalue("no_tools")
    with node.entered(), pytest.raises(NotAllRemoved, match=r"install iptables$"):
        clean_up()


def test_what_is_gone_already_is_no_error(node: Namespace) -> None:
    with node.entered():
        assert not delete_dummy("kube-ipvs0")


# --- starting in nftables mode ----------------------------------------------------------------


@contextlib.contextmanager
def running(node: Namespace, manifests: Path, log: Path, flags: Sequence[str]) -> Iterator[None]:
    command = [*KUBE_PROXY, f"--manifests={manifests}", "--hostname-override=kestrel", *flags]
    with node.entered(), log.open("w") as file:
        process = subprocess.Popen(command, stderr=file)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def wait(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def test_the_first_sync_is_followed_by_the_end_of_other_modes(
    node: Namespace, tmp_path: Path
) -> None:
    make_sets(node)
    for family in Family:
        restore(node, Backend.LEGACY, family, rules("ipvs", family)[0])
        restore(node, Backend.NFT, family, rules("iptables", family)[0])
    log = tmp_path / "log"
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    flags = ["--proxy-mode=nftables", "-v=2"]
    with running(node, manifests, log, flags):
        wait(lambda: "ipset KUBE-6-HEALTH-CHECK-NODE-PORT" in log.read_text(), log.read_text)
    said = log.read_text()
    assert said.rindex('"Synced"') < said.index('"Removed"')
    assert sets(node) == []
    for family in Family:
        expected = rules("iptables", family)[1].count("KUBE")
        assert expected == saved(node, Backend.NFT, family).count("KUBE")
    assert {"table ip kube-proxy", "table ip6 kube-proxy"} <= {*tables(node)}
