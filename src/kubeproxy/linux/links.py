"""The addresses of this machine's interfaces, and their changes."""

import contextlib
import socket
from collections.abc import Callable

from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.route import (
    RTM_DELADDR,
    RTM_NEWADDR,
    RTNLGRP_IPV4_IFADDR,
    RTNLGRP_IPV6_IFADDR,
    RTNLGRP_LINK,
    AddressChange,
    address_in,
    addresses_request,
    change_in,
    device_in,
)
from kubeproxy.linux.netlink_socket import DECODING_ERRORS, Link, decoding
from kubeproxy.linux.subscription import Subscription


def device_index(device: str) -> int:
    """The kernel's number for a device; 0 when there is no device of that name."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def interface_addresses(family: Family, besides: str = "") -> tuple[str, ...]:
    """Every address of the family on every interface, sorted and once each.

    The addresses of the device `besides` are left out, but for those that another one has too.
    """
    left_out = device_index(besides) if besides else 0
    what = f"cannot read the {family.value} addresses"
    with Link(socket.NETLINK_ROUTE) as link, decoding(what):
        answers = link.request(addresses_request(family), what)
        found = {address_in(answer, family) for answer in answers if device_in(answer) != left_out}
    return tuple(sorted(address for address in found if address is not None))


async def watch_addresses(changed: Callable[[], None], besides: str = "") -> None:
    """Call `changed` whenever an address is added or removed, until cancelled.

    Changes of the device `besides` are left out. It may be added and removed itself.
    """
    left_out = 0

    def notify(message: Message | None) -> None:
        nonlocal left_out
        device = -1  # a lost notification is one too: something changed
        if message is not None:
            with contextlib.suppress(*DECODING_ERRORS):
                device = device_in(message)
        if besides and device != left_out:
            left_out = device_index(besides)
        if device != left_out:
            changed()

    groups = (RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR)
    with Subscription(socket.NETLINK_ROUTE, *groups) as addresses:
        await addresses.follow(notify)


async def watch_device(
    device: str, family: Family, changed: Callable[[AddressChange | None], None]
) -> None:
    """Call `changed` for each address that is added to or removed from a device, until cancelled.

    None says that anything may have changed: the device was removed, or notifications were lost.
    """
    index = 0

    def notify(message: Message | None) -> None:
        nonlocal index
        if message is None:
            changed(None)
        elif message.type not in {RTM_NEWADDR, RTM_DELADDR}:
            before, index = index, device_index(device)
            if before not in {0, index}:
                changed(None)
        elif device_in(message) == index:
            change = change_in(message, family)
            if change is not None:
                changed(change)

    groups = (RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR)
    with Subscription(socket.NETLINK_ROUTE, *groups) as changes:
        index = device_index(device)
        await changes.follow(notify)
