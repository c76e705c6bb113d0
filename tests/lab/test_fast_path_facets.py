"""What becomes of connections that have left the rules, and what they skip."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator

import pytest

from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.nftables.fastpath.path import Settings, bring, remove
from kubeproxy.dataplane.nftables.fastpath.selftest import self_test
from kubeproxy.linux import links
from kubeproxy.linux.conntrack import offloaded
from kubeproxy.linux.netlink.route import ARPHRD_ETHER, Device
from lab.cleaning import cleaned
from lab.connection import Connection, Flow
from lab.deploy import TCP, UDP, Port, deploy, everywhere
from lab.healed import of_pods, talks
from lab.modes import only
from lab.namespaces import Namespace
from lab.offloaded import (
    SECONDS,
    devices,
    entries,
    interfaces,
    is_offloaded,
    listed,
    need_flowtables,
    run_with_fast_path,
    talk,
)
from lab.plan import HOSTS, cluster_ip
from lab.stage import Lab
from world import Document

FAMILIES = pytest.mark.parametrize("family", Family)
PORTS = (Port(), Port(53, 53, protocol=UDP))
BOTH = Settings(enabled=True)
HEALING = "--nftables-healing=resetGone"
COUNTING = """
table inet others {
    chain early { type filter hook prerouting priority raw; counter; }
    chain middle { type filter hook forward priority filter; counter; }
    chain late { type filter hook postrouting priority srcnat; counter; }
}
"""

pytestmark = only("nftables", reason="other modes have no fast path")


@pytest.fixture(autouse=True)
def _flowtables(lab: Lab) -> None:
    need_flowtables(lab.network.node)


@pytest.fixture
def node(lab: Lab) -> Iterator[Namespace]:
    """A node whose fast path the test itself makes; the daemon only has its rules."""
    lab.run(documents=web())
    wait(lambda: not listed(lab.network.node), lab)
    with lab.network.node.entered():
        bring(BOTH)
    yield lab.network.node
    with lab.network.node.entered():
        remove()


def wait(until: Callable[[], bool], lab: Lab) -> None:
    deadline = time.monotonic() + SECONDS
    while not until():
        assert time.monotonic() < deadline, lab.daemon.said()
        time.sleep(0.05)


def web(endpoints: str = "L1") -> list[Document]:
    return deploy("web", everywhere(21), endpoints, PORTS)


def opened(lab: Lab, family: Family, protocol: Protocol = TCP) -> Connection | Flow:
    """A connection from a pod that has left the rules."""
    to = "P", cluster_ip(21, family), 53 if protocol is UDP else 80
    made = lab.flow(*to) if protocol is UDP else lab.connect(*to)
    talk(made)
    assert is_offloaded(lab.network.node, family, protocol, made.sent_from)
    return made


def client_without_paths(lab: Lab, family: Family) -> Namespace:
    """The client, who knows of no path that it takes smaller packets."""
    client = lab.network.namespaces["P"]
    client.run(["ip", "-4" if family is Family.IPV4 else "-6", "route", "flush", "cache"])
    return client


@contextlib.contextmanager
def others(node: Namespace) -> Iterator[None]:
    """Inside, others count packets."""
    node.run(["nft", "-f", "-"], COUNTING)
    try:
        yield
    finally:
        node.run(["nft", "delete", "table", "inet", "others"])


def seen_by_others(node: Namespace) -> list[int]:
    """The packets that others have seen: early, in the middle, late."""
    listed_ = node.run(["nft", "list", "table", "inet", "others"])
    return [int(number) for number in re.findall(r"packets (\d+)", listed_)]


# --- the table --------------------------------------------------------------------------------


def test_what_the_kernel_has_is_recognised(node: Namespace) -> None:
    """A second look writes nothing, and what people see is what was meant."""
    before = node.run(["nft", "-a", "list", "table", "inet", "kube-proxy-fast-path"])
    with node.entered():
        bring(BOTH)
    assert before == node.run(["nft", "-a", "list", "table", "inet", "kube-proxy-fast-path"])
    assert (
        "ct status dnat ct state established ct original packets > 20 meta l4proto @protocols "
        "iifname @interfaces oifname @interfaces flow add @f" in before
    )
    assert devices(node) == interfaces(node) != set()


def test_interfaces_can_be_chosen(lab: Lab, node: Namespace) -> None:
    """One end that takes no part keeps a connection with the rules."""
    with node.entered():
        bring(Settings(enabled=True, interfaces=("pod-l*", "eth-x")))
    assert devices(node) == interfaces(node) == {"pod-l1", "pod-l2", "pod-l3", "eth-x"}
    inside = lab.connect("P", cluster_ip(21), 80)
    talk(inside)
    assert not is_offloaded(node, Family.IPV4, TCP, inside.sent_from)


def test_a_device_that_vanishes_before_the_transaction(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what is there takes part; one that stays refused is left out by its name."""
    real = links.devices
    reads = iter([[*real(), Device("gone0", "veth", ARPHRD_ETHER, 0)]])
    monkeypatch.setattr(links, "devices", lambda: next(reads, None) or real())
    with node.entered():
        remove()
        done = bring(BOTH)
        assert done.left_out == ()
        assert {*done.devices} - {"gone0"} == devices(node)
        monkeypatch.setattr(
            links, "devices", lambda: [*real(), Device("gone0", "veth", ARPHRD_ETHER, 0)]
        )
        remove()
        done = bring(BOTH)
    # Since Linux 6.16 a flowtable has names, of devices that there are or will be.
    assert "gone0" in {*done.left_out, *done.devices}
    assert {*done.devices} - {"gone0"} == devices(node) != set()


def test_more_devices_than_the_kernel_takes_or_lists_at_once(node: Namespace) -> None:
    """The table has them all, and none that is gone."""
    names = {f"quite-many{number:03}" for number in range(300)}
    pairs = [(f"quite-many{n:03}", f"quite-many{n + 150:03}") for n in range(150)]
    with node.entered():
        node.run(
            ["ip", "-batch", "-"],
            "\n".join(f"link add {one} type veth peer name {other}" for one, other in pairs),
        )
        try:
            remove()
            assert names <= {*bring(BOTH).devices}
            bring(BOTH)
            assert names <= interfaces(node)
        finally:
            node.run(["ip", "-batch", "-"], "\n".join(f"link del {one}" for one, _ in pairs))
        bring(BOTH)
        bring(BOTH)
    assert devices(node) == interfaces(node) != set()
    assert "quite-many" not in listed(node)


def test_the_daemon_follows_devices_and_repairs_its_table(lab: Lab) -> None:
    run_with_fast_path(lab, documents=web())
    node = lab.network.node
    node.run(["ip", "link", "add", "new0", "type", "veth", "peer", "name", "new1"])
    wait(lambda: {"new0", "new1"} <= devices(node) & interfaces(node), lab)
    node.run(["nft", "delete", "table", "inet", "kube-proxy-fast-path"])
    node.run(["ip", "link", "del", "new0"])
    wait(lambda: bool(listed(node)), lab)
    assert not {"new0", "new1"} & interfaces(node)
    opened(lab, Family.IPV4)


def test_it_goes_with_the_setting_and_with_cleanup(lab: Lab) -> None:
    run_with_fast_path(lab, documents=web())
    node = lab.network.node
    assert cleaned(node)[0] == 0
    assert not listed(node)
    with node.entered():
        bring(BOTH)  # as an earlier run left it
    lab.run(documents=web())
    wait(lambda: not listed(node), lab)


# --- connections ------------------------------------------------------------------------------


@FAMILIES
@pytest.mark.parametrize("protocol", [TCP, UDP], ids=["tcp", "udp"])
def test_an_entry_that_is_deleted(
    lab: Lab, node: Namespace, family: Family, protocol: Protocol
) -> None:
    """The connection goes on by the rules, and leaves them again."""
    made = opened(lab, family, protocol)
    kind = family.value.lower()
    node.run(["conntrack", "-D", "-f", kind, "-p", protocol.name.lower()])
    talk(made, 5)
    assert not is_offloaded(node, family, protocol, made.sent_from)
    talk(made)
    assert is_offloaded(node, family, protocol, made.sent_from)


@FAMILIES
@pytest.mark.usefixtures("node")
def test_an_endpoint_that_is_removed(lab: Lab, family: Family) -> None:
    """Datagrams go to another one; a stream goes on, as without the fast path."""
    stream, flow = opened(lab, family), opened(lab, family, UDP)
    assert isinstance(flow, Flow)
    lab.put(*web("R1"))
    wait(lambda: flow.ask().who == "R1", lab)
    talk(stream)
    assert lab.dial("P", cluster_ip(21, family), 80).who == "R1"


@FAMILIES
def test_a_device_that_goes_down(lab: Lab, node: Namespace, family: Family) -> None:
    """Its connections return to the rules at once, and come back with it."""
    made = opened(lab, family)
    host = HOSTS["L1"]
    addresses = [host.address(each) for each in Family]
    known = node.run(["ip", "neigh", "show", "dev", host.interface]).split("lladdr ")[1].split()[0]
    node.run(["ip", "link", "set", host.interface, "down"])
    assert not is_offloaded(node, family, TCP, made.sent_from)
    node.run(["ip", "link", "set", host.interface, "up"])
    wires = [f"route replace {each} dev {host.interface}" for each in addresses]
    wires += [
        f"neigh replace {each} lladdr {known} dev {host.interface} nud permanent"
        for each in addresses
    ]
    node.run(["ip", "-batch", "-"], "\n".join(wires))
    assert not is_offloaded(node, family, TCP, made.sent_from)
    talk(made)
    assert is_offloaded(node, family, TCP, made.sent_from)


def test_all_leave_it_when_they_have_to(lab: Lab, node: Namespace) -> None:
    """The next packet of each meets the rules, and takes its connection past them again."""
    made = opened(lab, Family.IPV4), opened(lab, Family.IPV6), opened(lab, Family.IPV4, UDP)
    with node.entered():
        assert (offloaded(Family.IPV4), offloaded(Family.IPV6)) == (2, 1)
    with others(node):
        for each in made:
            talk(each)
        assert seen_by_others(node) == [0, 0, 0]
        with node.entered():
            bring(BOTH, leave=True)
        for each in made:
            talk(each)
        early, middle, late = seen_by_others(node)
        assert min(early, middle, late) >= len(made)
    with node.entered():
        assert (offloaded(Family.IPV4), offloaded(Family.IPV6)) == (2, 1)


@FAMILIES
def test_healing_resets_connections_to_pods_that_left(lab: Lab, family: Family) -> None:
    """They leave the fast path first; others come back to it."""
    run_with_fast_path(lab, HEALING, documents=of_pods(web("R1")))
    made = opened(lab, family)
    assert isinstance(made, Connection)
    lab.put(*of_pods(web("L1")))
    wait(lambda: not talks(made), lab)


# --- what is skipped --------------------------------------------------------------------------


@FAMILIES
def test_the_rules_of_others_see_nothing(lab: Lab, node: Namespace, family: Family) -> None:
    """Neither their counters nor what they drop from then on; conntrack goes on counting."""
    made = opened(lab, family)
    with others(node):
        talk(made)
        assert seen_by_others(node) == [0, 0, 0]
        node.run(["nft", "add", "rule", "inet", "others", "middle", "drop"])
        talk(made)
    (entry,) = [each for each in entries(node, family, TCP) if "[OFFLOAD]" in each]
    assert int(re.findall(r"packets=(\d+)", entry)[0]) > 80


@FAMILIES
@pytest.mark.usefixtures("node")
def test_the_hop_limit_counts(lab: Lab, family: Family) -> None:
    made = opened(lab, family, UDP)
    assert isinstance(made, Flow)
    made.hop_limit(1)
    assert "ICMP type" in made.ask().detail
    made.hop_limit(2)
    assert made.ask().who == "L1"


@FAMILIES
def test_a_path_with_a_smaller_mtu(lab: Lab, node: Namespace, family: Family) -> None:
    """The client is told, and sends smaller packets."""
    client = client_without_paths(lab, family)
    node.run(["ip", "link", "set", "pod-l1", "mtu", "1300"])
    try:
        made = opened(lab, family)
        assert isinstance(made, Connection)
        for _ in range(10):
            made.echo(bytes(4096))
        route = client.run(["ip", "route", "get", cluster_ip(21, family)])
        assert "mtu 1300" in route
        talk(made)
        assert is_offloaded(node, family, TCP, made.sent_from)
    finally:
        node.run(["ip", "link", "set", "pod-l1", "mtu", "1500"])


@FAMILIES
def test_an_mtu_that_changes(lab: Lab, node: Namespace, family: Family) -> None:
    """Connections leave the fast path, which would go on with the one of before."""
    client = client_without_paths(lab, family)
    made = opened(lab, family)
    assert isinstance(made, Connection)
    with node.entered():
        known = bring(BOTH).mtus
        node.run(["ip", "link", "set", "pod-l1", "mtu", "1400"])
        try:
            bring(BOTH, known)
            for _ in range(10):
                made.echo(bytes(4096))
        finally:
            node.run(["ip", "link", "set", "pod-l1", "mtu", "1500"])
    assert "mtu 1400" in client.run(["ip", "route", "get", cluster_ip(21, family)])


# --- the self-test ----------------------------------------------------------------------------


def test_the_self_test_finds_that_it_works(node: Namespace) -> None:
    with node.entered():
        assert self_test(tuple(Family)) == ""
