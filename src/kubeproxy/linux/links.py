"""The addresses of this machine's interfaces, and word when they change."""

import asyncio
import socket
from collections.abc import Callable

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink.address import (
    RTM_DELADDR,
    RTM_NEWADDR,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_LINK,
    AddressChange,
    address_in,
    change_in,
    device_in,
    dump_request,
)
from kubeproxy.linux.netlink.message import decode
from kubeproxy.linux.netlink_socket import NETLINK_ADD_MEMBERSHIP, SOL_NETLINK, ask, open_netlink
from kubeproxy.linux.understood import NONSENSE, understood

_DATAGRAM = 1 << 16


def device_index(device: str) -> int:
    """The kernel's number for a device; 0 when there is no device of that name."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def interface_addresses(family: Family, besides: str = "") -> tuple[str, ...]:
    """Every address of the family on every interface, sorted and once each.

    A device to be left out may be named; its addresses count when another one has them too.
    """
    left_out = device_index(besides) if besides else 0
    what = f"cannot read the {family.value} addresses"
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            answers = ask(link, dump_request(family, sequence=1))
    except OSError as error:
        raise KernelError(f"{what}: {error}") from error
    with understood(what):
        found = {address_in(answer, family) for answer in answers if device_in(answer) != left_out}
    return tuple(sorted(address for address in found if address is not None))


async def watch_addresses(changed: Callable[[], None], besides: str = "") -> None:
    """Call `changed` whenever an address comes or goes, until cancelled.

    A device to be left out may be named. It may come and go itself.
    """
    loop = asyncio.get_running_loop()
    left_out = 0
    with open_netlink(socket.NETLINK_ROUTE) as link:
        for group in (RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR):
            link.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        while True:
            try:
                data = await loop.sock_recv(link, _DATAGRAM)
                devices = set(map(device_in, decode(data)))
            except (OSError, *NONSENSE):  # a lost notification is one too: something changed
                changed()
                continue
            if besides and devices != {left_out}:
                left_out = device_index(besides)
            if devices != {left_out}:
                changed()


async def watch_device(
    device: str, family: Family, changed: Callable[[AddressChange | None], None]
) -> None:
    """Call `changed` for each address that comes to a device or goes from it, until cancelled.

    None says that anything may have changed: the device went, or word was lost.
    """
    loop = asyncio.get_running_loop()
    with open_netlink(socket.NETLINK_ROUTE) as link:
        for group in (RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR):
            link.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        index = device_index(device)
        while True:
            try:
                data = await loop.sock_recv(link, _DATAGRAM)
            except OSError:
                changed(None)
                continue
            for message in decode(data):
                if message.type not in {RTM_NEWADDR, RTM_DELADDR}:
                    before, index = index, device_index(device)
                    if before not in {0, index}:
                        changed(None)
                elif device_in(message) == index:
                    change = change_in(message, family)
                    if change is not None:
                        changed(change)
