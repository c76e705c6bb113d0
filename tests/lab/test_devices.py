"""Addresses of devices: read, changed many at a time, and watched."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.linux.links import (
    change_addresses,
    delete_dummy,
    device_addresses,
    ensure_dummy,
    interface_addresses,
    watch_addresses,
    watch_device,
)
from kubeproxy.linux.netlink.route import (
    AddressChange,
    add_address_request,
    addresses_request,
    device_request,
)
from kubeproxy.linux.netlink_socket import Link, Refused
from lab.namespaces import Namespace
from waiting import until

DEVICE = "kube-ipvs0"
VIP, VIP6, NODE = "10.96.50.1", "fd00:10:96::5001", "10.201.1.2"


@pytest.fixture
def node() -> Iterator[Namespace]:
    """A network with a device of that name: not every kernel has dummies, but all have bridges."""
    namespace = Namespace("devices")
    namespace.run(["ip", "link", "add", DEVICE, "type", "bridge"])
    namespace.run(["ip", "link", "set", "lo", "up"])
    namespace.run(["ip", "address", "add", f"{NODE}/24", "dev", "lo"])
    with namespace.entered():
        yield namespace
    namespace.close()


@pytest.mark.usefixtures("node")
def test_addresses_come_and_go() -> None:
    assert change_addresses(DEVICE, [VIP, VIP6], []) == {}
    assert change_addresses(DEVICE, [VIP, "10.96.50.2"], [VIP6, "10.96.50.3"]) == {}
    found = {family: device_addresses(DEVICE, family) for family in Family}
    assert found == {Family.IPV4: (VIP, "10.96.50.2"), Family.IPV6: ()}


def test_they_are_single_and_global(node: Namespace) -> None:
    change_addresses(DEVICE, [VIP, VIP6], [])
    shown = node.run(["ip", "-oneline", "address", "show", DEVICE]).split("\n")
    assert any(f"inet {VIP}/32 scope global {DEVICE}" in line for line in shown)
    assert any(f"inet6 {VIP6}/128 scope global" in line for line in shown)


@pytest.mark.usefixtures("node")
def test_thousands_in_one_call() -> None:
    addresses = [f"10.97.{number >> 8}.{number & 255}" for number in range(3000)]
    assert change_addresses(DEVICE, addresses, []) == {}
    assert set(addresses) == set(device_addresses(DEVICE, Family.IPV4))
    assert change_addresses(DEVICE, [], addresses) == {}
    assert device_addresses(DEVICE, Family.IPV4) == ()


@pytest.mark.usefixtures("node")
def test_a_refused_address_keeps_no_other_from_being_added() -> None:
    failed = change_addresses(DEVICE, ["ff02::1", VIP6], [])
    assert list(failed) == ["ff02::1"]
    assert failed["ff02::1"].errno == errno.EADDRNOTAVAIL
    assert f"cannot add the address ff02::1 to {DEVICE}: " in str(failed["ff02::1"])
    assert device_addresses(DEVICE, Family.IPV6) == (VIP6,)


@pytest.mark.usefixtures("node")
def test_what_a_device_has_by_itself_is_not_counted() -> None:
    assert device_addresses("lo", Family.IPV6) == ()
    assert device_addresses("lo", Family.IPV4) == (NODE,)


@pytest.mark.usefixtures("node")
def test_a_device_that_is_not_there() -> None:
    assert device_addresses("gone0", Family.IPV4) == ()
    assert not delete_dummy("gone0")
    assert change_addresses("gone0", [], []) == {}
    with pytest.raises(KernelError, match="of gone0: there is no such device"):
        change_addresses("gone0", [VIP], [])


@pytest.mark.usefixtures("node")
def test_a_device_of_another_kind_is_taken_as_it_is_but_not_deleted() -> None:
    assert not ensure_dummy(DEVICE)
    with pytest.raises(KernelError, match=f"{DEVICE} stays.* of kind bridge"):
        delete_dummy(DEVICE)
    with pytest.raises(KernelError, match=r"lo stays.* of kind none"):
        delete_dummy("lo")


@pytest.mark.usefixtures("node")
def test_an_address_on_both_devices_is_the_nodes() -> None:
    change_addresses(DEVICE, [VIP, NODE], [])
    assert interface_addresses(Family.IPV4) == ("10.201.1.2", "10.96.50.1", "127.0.0.1")
    assert interface_addresses(Family.IPV4, besides=DEVICE) == ("10.201.1.2", "127.0.0.1")
    assert interface_addresses(Family.IPV4) == interface_addresses(Family.IPV4, besides="gone0")


@contextlib.asynccontextmanager
async def watched(besides: str) -> AsyncIterator[asyncio.Event]:
    changes = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(watch_addresses(changes.set, besides))
        await asyncio.sleep(0)  # it listens from its first step on
        yield changes
        watch.cancel()


async def test_addresses_of_the_device_are_not_reported(node: Namespace) -> None:
    async with watched(DEVICE) as changes:
        change_addresses(DEVICE, [VIP, VIP6], [])
        node.run(["ip", "link", "delete", DEVICE])
        node.run(["ip", "link", "add", DEVICE, "type", "bridge"])
        change_addresses(DEVICE, [VIP, VIP6], [])
        await settled()
        changes.clear()  # that the device went away may be reported
        change_addresses(DEVICE, [], [VIP])
        await settled()
        assert not changes.is_set()
        change_addresses("lo", ["10.201.1.3"], [])
        await asyncio.wait_for(changes.wait(), 10)


@pytest.mark.usefixtures("node")
async def test_without_a_device_to_be_left_out_every_address_wakes() -> None:
    async with watched("") as changes:
        change_addresses(DEVICE, [VIP], [])
        await asyncio.wait_for(changes.wait(), 10)


async def test_addresses_of_a_device_and_its_removal_are_reported(node: Namespace) -> None:
    changes: list[AddressChange | None] = []
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(watch_device(DEVICE, Family.IPV4, changes.append))
        await asyncio.sleep(0)  # it listens from its first step on
        change_addresses(DEVICE, [VIP, VIP6], [])
        change_addresses("lo", ["10.201.1.3"], [])
        change_addresses(DEVICE, [], [VIP])
        came, went = AddressChange(VIP, is_there=True), AddressChange(VIP, is_there=False)
        await until(lambda: changes == [came, went])
        node.run(["ip", "link", "delete", DEVICE])
        await until(lambda: changes[2:] == [None])
        node.run(["ip", "link", "add", DEVICE, "type", "bridge"])
        change_addresses(DEVICE, [VIP], [])
        await until(lambda: changes[3:] == [came])
        watch.cancel()


async def settled() -> None:
    """Give what waits in the socket the chance to be read."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.usefixtures("node")
def test_refusals_name_their_message() -> None:
    index = socket.if_nametoindex(DEVICE)
    twice = [add_address_request(index, f"10.98.0.{number % 200}") for number in range(700)]
    with Link(socket.NETLINK_ROUTE) as link:
        refused = link.send_all(twice, "cannot add addresses")
        assert set(range(200, 700)) == set(refused)
        assert {errno.EEXIST} == {error.errno for error in refused.values()}
        assert link.send_all([], "cannot add addresses") == {}
        with pytest.raises(Refused, match="cannot read it: No such device"):
            link.request(device_request(9999), "cannot read it")
        assert len(link.request(addresses_request(Family.IPV4), "cannot read addresses")) == 202
