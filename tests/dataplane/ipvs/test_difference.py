"""What another program did to sets, servers, addresses and rules, as the tools list it."""

from collections.abc import Callable

import pytest

from dataplane.iptables.clusters import CLUSTERS, table
from dataplane.ipvs.plane import QUICK, Plane, fresh
from fakes.ipvs import FakeKernel
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.difference import Change
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.difference import differences
from kubeproxy.linux.netlink.ipvs import AddReal, AddServer, RealKey, ServerKey, VirtualServer
from kubeproxy.table.entries import Table
from kubeproxy.table.node import NodeView
from world import CLUSTER_IP, Mode, endpoint_slice, everywhere, node, table_of

OWNER = "shop/cart:http"
CART = ServerKey(Protocol.TCP, CLUSTER_IP, 80)
DNS = ServerKey(Protocol.UDP, "10.112.0.22", 53)
L1, GUEST = RealKey("10.64.3.11", 8080), RealKey("192.0.2.9", 8080)
STRANGER = ServerKey(Protocol.TCP, "192.0.2.1", 80)
HERE = node(Mode.IPVS)


def shown(
    kernel: FakeKernel, wanted: Table, here: NodeView = HERE, *, has_device: bool = True
) -> list[str]:
    """The differences as `sign object | service port | reason`; nothing is written."""
    written = kernel.sets.restored, kernel.tables.restored, kernel.servers.asked
    before = [len(each) for each in written]
    plane = IpvsDataplane(QUICK, kernel.servers, kernel.tables)
    signs = {Change.ADD: "+", Change.REMOVE: "-", Change.REPLACE: "!"}
    with kernel.installed():
        made = kernel.device.made
        found = list(differences(plane.survey(wanted, here), wanted.family, has_device=has_device))
        assert kernel.device.made == made
    assert [len(each) for each in written] == before
    return [
        " | ".join(
            filter(None, (f"{signs[each.change]} {each.object}", each.service_port, each.reason))
        )
        for each in found
    ]


def cart(endpoints: str = "L1 R1") -> Table:
    return table_of(everywhere(), endpoint_slice(endpoints))


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_kernel_that_is_as_it_should_be(name: str, family: Family) -> None:
    wanted = table(name, family)
    here = node(Mode.IPVS, family)
    assert shown(fresh(wanted, here), wanted, here) == []


def test_a_real_server_that_waits_for_its_last_connections_is_no_difference() -> None:
    kernel = FakeKernel()
    plane = Plane(kernel)
    plane.put(cart(), full=True)
    kernel.servers.busy.add((CART, L1))
    plane.put(cart("R1"))
    assert kernel.servers.weights[CART][L1] == 0
    assert shown(kernel, cart("R1")) == []


def server_gone(kernel: FakeKernel) -> None:
    del kernel.servers.kept[CART], kernel.servers.weights[CART]


def server_otherwise(kernel: FakeKernel) -> None:
    kernel.servers.kept[CART] = VirtualServer("sh")


def stranger(kernel: FakeKernel) -> None:
    kernel.servers.run([AddServer(STRANGER, VirtualServer())])


def real_gone(kernel: FakeKernel) -> None:
    del kernel.servers.weights[CART][L1]


def real_added(kernel: FakeKernel) -> None:
    kernel.servers.run([AddReal(CART, GUEST)])


def member_gone(kernel: FakeKernel) -> None:
    kernel.sets.kept["KUBE-CLUSTER-IP"][1].clear()


def member_added(kernel: FakeKernel) -> None:
    kernel.sets.kept["KUBE-CLUSTER-IP"][1].add("192.0.2.1,tcp:80")


def set_gone(kernel: FakeKernel) -> None:
    del kernel.sets.kept["KUBE-EXTERNAL-IP-LOCAL"]


def address_gone(kernel: FakeKernel) -> None:
    del kernel.device.kept[CLUSTER_IP]


def address_added(kernel: FakeKernel) -> None:
    kernel.device.kept["192.0.2.99"] = None


def rule_gone(kernel: FakeKernel) -> None:
    kernel.tables.kept["filter"]["KUBE-FORWARD"].pop()


def rule_added(kernel: FakeKernel) -> None:
    kernel.tables.kept["nat"]["KUBE-MARK-MASQ"].append("-j RETURN")


def chain_gone(kernel: FakeKernel) -> None:
    del kernel.tables.kept["nat"]["KUBE-MARK-MASQ"]


def jump_gone(kernel: FakeKernel) -> None:
    kernel.tables.kept["nat"]["POSTROUTING"].clear()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            server_gone,
            [
                f"+ virtual server -t {CLUSTER_IP}:80 -s rr | {OWNER}",
                f"+ real server -t {CLUSTER_IP}:80 -r {L1} -m -w 1 | {OWNER}",
                f"+ real server -t {CLUSTER_IP}:80 -r 10.65.7.21:8080 -m -w 1 | {OWNER}",
            ],
        ),
        (
            server_otherwise,
            [f"! virtual server -t {CLUSTER_IP}:80 -s rr | {OWNER} | it is set otherwise"],
        ),
        (stranger, ["- virtual server -t 192.0.2.1:80"]),
        (real_gone, [f"+ real server -t {CLUSTER_IP}:80 -r {L1} -m -w 1 | {OWNER}"]),
        (real_added, [f"- real server -t {CLUSTER_IP}:80 -r {GUEST} -m -w 1 | {OWNER}"]),
        (member_gone, [f"+ ipset KUBE-CLUSTER-IP {CLUSTER_IP},tcp:80 | {OWNER}"]),
        (member_added, ["- ipset KUBE-CLUSTER-IP 192.0.2.1,tcp:80"]),
        (
            set_gone,
            [
                (
                    "+ ipset KUBE-EXTERNAL-IP-LOCAL hash:ip,port family inet hashsize 1024"
                    " maxelem 65536"
                )
            ],
        ),
        (address_gone, [f"+ address {CLUSTER_IP}/32 dev kube-ipvs0 | {OWNER}"]),
        (address_added, ["- address 192.0.2.99/32 dev kube-ipvs0"]),
        (
            rule_gone,
            [
                (
                    '+ -t filter -A KUBE-FORWARD -m comment --comment "kubernetes forwarding'
                    ' conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'
                )
            ],
        ),
        (rule_added, ["- -t nat -A KUBE-MARK-MASQ -j RETURN"]),
        (
            chain_gone,
            [
                "+ -t nat -N KUBE-MARK-MASQ",
                "+ -t nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000",
            ],
        ),
        (
            jump_gone,
            [
                (
                    '+ -t nat -I POSTROUTING -m comment --comment "kubernetes postrouting rules"'
                    " -j KUBE-POSTROUTING"
                )
            ],
        ),
    ],
    ids=lambda value: value.__name__.replace("_", "-") if callable(value) else "",
)
def test_what_another_program_did_is_shown(
    spoil: Callable[[FakeKernel], None], expected: list[str]
) -> None:
    kernel = fresh(cart(), HERE)
    spoil(kernel)
    assert shown(kernel, cart()) == expected


def test_a_real_server_of_udp_goes_at_once() -> None:
    wanted = table("cluster-ip", Family.IPV4)
    kernel = fresh(wanted, HERE)
    kernel.servers.run([AddReal(DNS, RealKey("192.0.2.9", 53))])
    assert shown(kernel, wanted) == [
        "- real server -u 10.112.0.22:53 -r 192.0.2.9:53 -m -w 1 | mall/dns:udp-53"
    ]


def test_the_device_is_gone() -> None:
    kernel = fresh(cart(), HERE)
    kernel.device.kept.clear()
    found = shown(kernel, cart(), has_device=False)
    assert found[0] == "+ device kube-ipvs0"
    assert f"+ address {CLUSTER_IP}/32 dev kube-ipvs0 | {OWNER}" in found
