"""What is written when, in which order, and what after a failure."""

import asyncio
from copy import deepcopy

import msgspec
import pytest

from dataplane.iptables.clusters import table
from dataplane.ipvs.plane import QUICK, Plane, empty, fresh
from fakes.ipvs import FakeKernel
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol
from kubeproxy.dataplane.contract import Update
from kubeproxy.dataplane.ipvs.rules import JUMPS
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    DeleteReal,
    RealKey,
    ServerKey,
    SetReal,
    VirtualServer,
)
from kubeproxy.table.diff import NO_CHANGES
from kubeproxy.table.entries import Table
from world import (
    CLUSTER_IP,
    EXTERNAL_IP,
    VIP,
    Mode,
    endpoint_slice,
    node,
    prefix,
    service,
    table_of,
)
from world import everywhere as everywhere_

CART = ServerKey(Protocol.TCP, CLUSTER_IP, 80)
L1, R1 = RealKey("10.64.3.11", 8080), RealKey("10.65.7.21", 8080)


def cart(endpoints: str) -> Table:
    return table_of(service(), endpoint_slice(endpoints))


def everywhere(endpoints: str = "L1 R1", spec: dict[str, object] | None = None) -> Table:
    return table_of(everywhere_(spec), endpoint_slice(endpoints))


@pytest.fixture
def kernel() -> FakeKernel:
    return FakeKernel()


@pytest.fixture
def plane(kernel: FakeKernel) -> Plane:
    return Plane(kernel)


def test_the_first_sync_makes_device_sets_chains_and_jumps(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(empty(), full=True)
    assert kernel.device.made == 1
    assert len(kernel.sets.kept) == 17
    for jump in JUMPS:
        assert jump.rule in kernel.tables.kept[jump.table][jump.chain]
    firsts = [
        rules[0].rpartition(" ")[2] for rules in kernel.tables.kept["filter"].values() if rules
    ]
    assert firsts[:3] == ["KUBE-IPVS-FILTER", "KUBE-PROXY-FIREWALL", "KUBE-IPVS-OUT-FILTER"]


def test_a_changed_endpoint_is_a_few_messages_and_no_process(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(cart("L1 R1"), full=True)
    programs = len(kernel.sets.restored), len(kernel.tables.restored)
    kernel.servers.asked.clear()
    reads = kernel.servers.reads
    report = plane.put(cart("L1 R1 R2"))
    assert kernel.servers.asked == [AddReal(CART, RealKey("10.66.9.31", 8080))]
    assert report.written == 1
    assert kernel.servers.reads == reads
    plane.put(cart("L1 R1"))
    gone = RealKey("10.66.9.31", 8080)
    assert kernel.servers.asked[1:] == [SetReal(CART, gone, 0), DeleteReal(CART, gone)]
    assert kernel.servers.reads == reads + 1
    assert (len(kernel.sets.restored), len(kernel.tables.restored)) == programs


def test_a_node_that_moves_has_its_node_ports_elsewhere(plane: Plane, kernel: FakeKernel) -> None:
    plane.put(everywhere(), full=True)
    plane.move("198.51.100.33", VIP)
    assert VIP not in kernel.device.kept
    assert ServerKey(Protocol.TCP, "198.51.100.33", 31080) in kernel.servers.kept
    assert fresh(plane.table, plane.node).state() == kernel.state()


@pytest.mark.parametrize("name", ["source-ranges", "local-policies", "affinity"])
@pytest.mark.parametrize("family", Family)
def test_what_others_change_is_repaired(name: str, family: Family) -> None:
    kernel = FakeKernel(family)
    plane = Plane(kernel, node(Mode.IPVS, family))
    plane.put(table(name, family), full=True)
    expected = deepcopy(kernel.state())
    key = next(iter(kernel.servers.kept))
    del kernel.servers.kept[key], kernel.servers.weights[key]
    other = next(key for key, weights in kernel.servers.weights.items() if weights)
    kernel.servers.weights[other].clear()
    kernel.servers.kept[other] = VirtualServer("sh")
    stranger = ServerKey(Protocol.TCP, "192.0.2.1" if family is Family.IPV4 else "fd99::1", 80)
    kernel.servers.run([AddServer(stranger, VirtualServer())])
    kernel.device.kept.popitem()
    kernel.device.kept[stranger.address] = None
    for _, members in kernel.sets.kept.values():
        members.clear()
    kernel.tables.kept["nat"]["OUTPUT"].clear()
    kernel.tables.kept["nat"]["KUBE-SERVICES"].pop()
    assert plane.apply(full=True).failed == {}
    assert kernel.state() == expected
    assert plane.apply(full=True).written == 0


def test_servers_in_excluded_ranges_stay() -> None:
    kernel = FakeKernel()
    excluded = IpvsSettings(excluded=(prefix("192.0.2.0/24"),))
    plane = Plane(kernel, settings=excluded)
    theirs = ServerKey(Protocol.UDP, "192.0.2.1", 53)
    kernel.servers.run([AddServer(theirs, VirtualServer("sh"))])
    foreign = ServerKey(Protocol.UDP, "192.0.3.1", 53)
    kernel.servers.run([AddServer(foreign, VirtualServer("sh"))])
    plane.put(cart("L1"), full=True)
    assert kernel.servers.kept.keys() == {theirs, CART}
    assert kernel.servers.kept[theirs] == VirtualServer("sh")


def test_weights_are_reset_once(plane: Plane, kernel: FakeKernel) -> None:
    Plane(kernel).put(cart("L1 R1"), full=True)
    kernel.servers.weights[CART][L1] = 0
    plane.put(cart("L1 R1"), full=True)
    assert kernel.servers.weights[CART] == {L1: 1, R1: 1}
    kernel.servers.weights[CART][L1] = 5
    plane.apply(full=True)
    assert kernel.servers.weights[CART] == {L1: 5, R1: 1}


def test_weights_are_reset_once_also_when_the_first_sync_fails(
    plane: Plane, kernel: FakeKernel
) -> None:
    kernel.servers.kept[CART] = VirtualServer()
    kernel.servers.weights[CART] = {L1: 0, R1: 1}
    kernel.sets.broken = "killed"
    with pytest.raises(KernelError, match="killed"):
        plane.put(cart("L1 R1"), full=True)
    assert kernel.servers.weights[CART] == {L1: 0, R1: 1}
    kernel.sets.broken = ""
    plane.apply(full=True)
    assert kernel.servers.weights[CART] == {L1: 1, R1: 1}


@pytest.mark.parametrize("full", [False, True], ids=["partial", "full"])
def test_weights_of_a_service_that_was_refused_are_reset_when_it_is_not(
    plane: Plane, kernel: FakeKernel, *, full: bool
) -> None:
    kernel.servers.kept[CART] = VirtualServer()
    kernel.servers.weights[CART] = {L1: 0, R1: 1}
    kernel.servers.broken.add(CART)
    assert plane.put(cart("L1 R1"), full=True).failed
    kernel.servers.broken.clear()
    assert not plane.apply(full=full).failed
    assert kernel.servers.weights[CART] == {L1: 1, R1: 1}
    kernel.servers.weights[CART][L1] = 5
    plane.apply(full=True)
    assert kernel.servers.weights[CART] == {L1: 5, R1: 1}


def test_an_endpoint_with_connections_drains_and_may_come_back(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(cart("L1 R1"), full=True)
    kernel.servers.busy.add((CART, R1))
    plane.put(cart("L1"))
    assert kernel.servers.weights[CART] == {L1: 1, R1: 0}
    plane.apply(full=True)
    plane.ipvs._check_drained()
    assert kernel.servers.weights[CART] == {L1: 1, R1: 0}
    plane.put(cart("L1 R1"))
    assert kernel.servers.weights[CART] == {L1: 1, R1: 1}
    kernel.servers.busy.clear()
    plane.ipvs._check_drained()
    assert kernel.servers.weights[CART] == {L1: 1, R1: 1}


def test_after_a_restart_draining_goes_on(plane: Plane, kernel: FakeKernel) -> None:
    plane.put(cart("L1 R1"), full=True)
    kernel.servers.busy.add((CART, R1))
    plane.put(cart("L1"))
    another = Plane(kernel)
    another.put(cart("L1"), full=True)
    assert kernel.servers.weights[CART] == {L1: 1, R1: 0}
    kernel.servers.busy.clear()
    another.ipvs._check_drained()
    assert kernel.servers.weights[CART] == {L1: 1}


async def test_draining_is_looked_after_all_the_time(
    plane: Plane, kernel: FakeKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.put(cart("L1 R1"), full=True)
    kernel.servers.busy.add((CART, R1))
    plane.put(cart("L1"))
    kernel.servers.unreadable = "no memory"
    watching = asyncio.ensure_future(plane.ipvs.watch(lambda _: None))
    said = ""
    async with asyncio.timeout(5):
        while "Cannot check draining real servers" not in said:
            await asyncio.sleep(0.001)
            said += capsys.readouterr().err
        kernel.servers.unreadable = ""
        kernel.servers.busy.clear()
        while R1 in kernel.servers.weights[CART]:
            await asyncio.sleep(0.001)
    watching.cancel()
    await plane.ipvs.close()


def test_a_real_server_that_cannot_be_removed_is_looked_at_again(
    plane: Plane, kernel: FakeKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.put(cart("L1 R1"), full=True)
    kernel.servers.busy.add((CART, R1))
    plane.put(cart("L1"))
    kernel.servers.busy.clear()
    kernel.servers.broken.add(CART)
    plane.ipvs._check_drained()
    assert "Real server cannot be removed, will try again" in capsys.readouterr().err
    kernel.servers.broken.clear()
    plane.ipvs._check_drained()
    assert kernel.servers.weights[CART] == {L1: 1}


def test_a_server_that_is_refused_is_named_and_holds_up_no_other(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(empty(), full=True)
    kernel.servers.broken.add(CART)
    wanted = table("affinity", Family.IPV4)
    for entry in cart("L1").entries.values():
        wanted.put(entry)
    report = plane.put(wanted)
    assert {str(name) for name in report.failed} == {"shop/cart:http"}
    assert len(kernel.servers.kept) == len(wanted.entries) - 1
    kernel.servers.broken.clear()
    assert plane.apply().failed == {}
    assert fresh(wanted).state() == kernel.state()


def test_a_server_that_another_program_made_is_taken_over_in_the_second_try(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(empty(), full=True)
    kernel.servers.run([AddServer(CART, VirtualServer("sh")), AddReal(CART, R1)])
    assert plane.put(cart("L1")).failed
    assert plane.apply().failed == {}
    assert fresh(plane.table).state() == kernel.state()


def test_an_entry_that_was_refused_may_be_gone_by_the_second_try(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(empty(), full=True)
    kernel.servers.broken.add(CART)
    assert plane.put(cart("L1")).failed
    assert plane.put(empty()).failed == {}
    kernel.servers.broken.clear()
    plane.apply(full=True)
    assert fresh(empty()).state() == kernel.state()


def test_an_address_that_cannot_be_bound_is_named(plane: Plane, kernel: FakeKernel) -> None:
    kernel.device.broken.add(EXTERNAL_IP)
    report = plane.put(everywhere(), full=True)
    (reason,) = report.failed.values()
    assert reason == f"cannot change {EXTERNAL_IP}: Cannot assign requested address"
    kernel.device.broken.clear()
    assert plane.apply().failed == {}
    assert fresh(plane.table).state() == kernel.state()


def test_a_set_that_refuses_one_member_takes_the_others(plane: Plane, kernel: FakeKernel) -> None:
    odd = service({"clusterIP": "10.112.0.9", "externalIPs": ["0.0.0.0"]}, name="a")
    wanted = table_of(odd, service(), endpoint_slice("L1 R1"))
    report = plane.put(wanted, full=True)
    assert {"a"} == {name.service for name in report.failed}
    assert {"10.112.0.9", CLUSTER_IP} == kernel.sets.members()["KUBE-IPVS-IPS"]


def test_a_full_set_keeps_other_sets_from_nothing(plane: Plane, kernel: FakeKernel) -> None:
    plane.put(empty(), full=True)
    kernel.sets.full.add("KUBE-LOOP-BACK")
    report = plane.put(everywhere())
    assert "the set KUBE-LOOP-BACK is full" in "".join(report.failed.values())
    assert kernel.device.kept.keys() == {CLUSTER_IP, VIP, EXTERNAL_IP}
    kernel.sets.full.clear()
    assert plane.apply().failed == {}
    assert fresh(plane.table).state() == kernel.state()


def test_ipset_that_fails_altogether_fails_the_sync(plane: Plane, kernel: FakeKernel) -> None:
    plane.put(empty(), full=True)
    kernel.sets.broken = "killed"
    with pytest.raises(KernelError, match="killed"):
        plane.put(cart("L1"))
    kernel.sets.broken = ""
    plane.apply()
    assert fresh(plane.table).state() == kernel.state()


def test_without_rules_nothing_is_removed_but_what_serves_is_written(
    plane: Plane, kernel: FakeKernel
) -> None:
    plane.put(cart("L1"), full=True)
    kernel.tables.broken = "exit code 4"
    wanted = everywhere("R1", {"clusterIP": "10.112.0.99"})
    with pytest.raises(KernelError, match="exit code 4"):
        plane.put(wanted)
    assert CART in kernel.servers.kept
    assert ServerKey(Protocol.TCP, VIP, 80) in kernel.servers.kept
    assert {CLUSTER_IP, VIP} <= kernel.device.kept.keys()
    kernel.tables.broken = ""
    plane.apply()
    assert fresh(plane.table).state() == kernel.state()


def test_what_cannot_be_removed_is_mentioned_and_no_failure(
    plane: Plane, kernel: FakeKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.put(cart("L1"), full=True)
    kernel.servers.broken.add(CART)
    kernel.device.broken.add(CLUSTER_IP)
    assert plane.put(empty()).failed == {}
    assert capsys.readouterr().err.count("Could not remove stale objects") == 2


def test_a_server_that_is_gone_already_is_no_failure(
    plane: Plane, kernel: FakeKernel, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.put(cart("L1 R1"), full=True)
    del kernel.servers.kept[CART], kernel.servers.weights[CART]
    plane.put(empty())
    assert capsys.readouterr().err == ""


async def test_a_sync_in_a_thread(kernel: FakeKernel) -> None:
    plane = Plane(kernel, settings=msgspec.structs.replace(QUICK, scheduler="mh"))
    wanted = cart("L1")
    with kernel.installed():
        report = await plane.ipvs.apply(Update(wanted, plane.node, NO_CHANGES, full=True))
    assert report.failed == {}
    assert kernel.servers.kept[CART].scheduler == "mh"


def test_sets_of_others_are_not_read(plane: Plane, kernel: FakeKernel) -> None:
    kernel.sets.kept["theirs"] = ("hash:ip", {"192.0.2.1"})
    plane.put(cart("L1"), full=True)
    plane.apply(full=True)
    assert kernel.sets.read
    assert "theirs" not in kernel.sets.read
