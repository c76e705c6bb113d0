"""The addresses of this machine's interfaces, and word when they change."""

import asyncio
import socket
from collections.abc import Callable

from kubeproxy.errors import KernelError
from kubeproxy.inet import Family
from kubeproxy.kernel.netlink import NETLINK_ADD_MEMBERSHIP, SOL_NETLINK, ask, open_netlink
from kubeproxy.netlink.address import (
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV6_IFADDR,
    address_in,
    device_in,
    dump_request,
)
from kubeproxy.netlink.message import decode

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
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            answers = ask(link, dump_request(family, sequence=1))
    except OSError as error:
        raise KernelError(f"cannot read the {family.value} addresses: {error}") from error
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
            except OSError:  # a lost notification (ENOBUFS) is one too: something changed
                changed()
                continue
            devices = set(map(device_in, decode(data)))
            if besides and devices != {left_out}:
                left_out = device_index(besides)
            if devices != {left_out}:
                changed()
