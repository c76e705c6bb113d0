"""`--cleanup` where ipvs mode of other releases has been: servers, device and sets."""

from collections.abc import Iterator

import pytest

from dataplane import leftover_rules
from dataplane.leftover_rules import IPTABLES, LEFTOVERS, SERVED, Leftover, address
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.cleanup import NotAllRemoved, clean_up
from kubeproxy.dataplane.iptables.setup import COUNTERS
from kubeproxy.linux.nfacct import ensure_counters, read_packets
from kubeproxy.linux.tools import RuleKind
from lab.cleaning import cleaned, restore_beside, saved, set_names
from lab.ipvs import DEVICE, servers
from lab.namespaces import Namespace

OF_IPVS = [leftover for leftover in LEFTOVERS if leftover.mode == "ipvs"]
FOREIGN = {Family.IPV4: "192.0.2.1", Family.IPV6: "[2001:db8::1]"}


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A kernel with rules, a virtual server and a device of others."""
    namespace = Namespace("cleanup")
    namespace.run(["ip", "link", "add", "theirs", "type", "dummy"])
    for family in Family:
        rules = leftover_rules.others(family) + leftover_rules.kubelet(family)
        restore_beside(namespace, RuleKind.LEGACY, family, rules)
        namespace.run(["ipvsadm", "-A", "-t", f"{FOREIGN[family]}:443", "-s", "wlc"])
    yield namespace
    namespace.close()


def load(node: Namespace, leftover: Leftover, family: Family) -> None:
    """Do what a kube-proxy of that release did, whole."""
    node.run(["ipset", "restore", "-exist"], leftover_rules.sets(leftover, family))
    restore_beside(node, RuleKind.LEGACY, family, leftover_rules.rules(leftover, family))
    node.run(["ipvsadm", "-R"], leftover_rules.servers(leftover, family))
    length = 32 if family is Family.IPV4 else 128
    bound = [address(name, family) for name in SERVED]
    commands = [f"address add {each}/{length} dev {DEVICE}\n" for each in bound]
    node.run(["ip", "-batch", "-"], "".join(commands))


@pytest.mark.parametrize("leftover", OF_IPVS, ids=str)
def test_all_of_ipvs_mode_goes_and_all_of_others_stays(
    node: Namespace, leftover: Leftover
) -> None:
    families = tuple(Family) if leftover.is_dual_stack else (Family.IPV6,)
    rules = {family: saved(node, RuleKind.LEGACY, family) for family in Family}
    foreign = servers(node)
    node.run(["ip", "link", "add", DEVICE, "type", "dummy"])
    for family in families:
        load(node, leftover, family)
    assert len(servers(node)) > len(foreign)
    code, said = cleaned(node)
    after = {family: saved(node, RuleKind.LEGACY, family) for family in Family}
    assert (0, rules, foreign) == (code, after, servers(node)), said
    links = node.run(["ip", "-brief", "link"])
    assert ("theirs" in links, DEVICE in links, set_names(node)) == (True, False, [])
    assert "[2001:db8::1]:443/TCP" in said
    with node.entered():
        assert clean_up() == ()


def test_named_counters_go(node: Namespace) -> None:
    before = saved(node, RuleKind.LEGACY, Family.IPV4)
    with node.entered():
        assert ensure_counters((*COUNTERS, "theirs")) == {}
    rules = leftover_rules.rules(IPTABLES, Family.IPV4)
    restore_beside(node, RuleKind.LEGACY, Family.IPV4, rules)
    code, said = cleaned(node)
    assert (0, before) == (code, saved(node, RuleKind.LEGACY, Family.IPV4)), said
    with node.entered():
        assert read_packets((*COUNTERS, "theirs")).keys() == {"theirs"}
    assert said.count('what="nfacct counter ') == len(COUNTERS)


def test_without_ipset_virtual_servers_known_from_sets_are_kept(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = servers(node)
    node.run(["ip", "link", "add", DEVICE, "type", "dummy"])
    load(node, LEFTOVERS[-1], Family.IPV4)
    with node.entered():
        with monkeypatch.context() as context:
            context.setattr("kubeproxy.dataplane.ipvs.cleanup.find", lambda _: None)
            with pytest.raises(NotAllRemoved, match=r"the sets KUBE-LOOP-BACK, .* install it$"):
                clean_up()
        assert "KUBE-CLUSTER-IP" in set_names(node)
        node_port = f"-t {address('HOST', Family.IPV4)}:30080 -s rr"
        assert node_port in servers(node)
        clean_up()
    assert (servers(node), set_names(node)) == (foreign, [])
