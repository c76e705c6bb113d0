"""The addresses of this machine's interfaces, and their changes; and dummy devices.

Ipvs mode keeps a dummy device with addresses. It has to exist, not to be up.
"""

import contextlib
import errno
import socket
from collections.abc import Callable, Collection
from typing import Final

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Prefix, contains
from kubeproxy.linux.netlink import route
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink_socket import (
    DECODING_ERRORS,
    Link,
    Refused,
    Subscription,
    decoding,
    tolerating,
)

_ADDRESSES: Final = (route.RTNLGRP_IPV4_IFADDR, route.RTNLGRP_IPV6_IFADDR)

# What a device has by itself, and no service can have.
_NOT_BOUND: Final = {
    Family.IPV4: (Prefix("127.0.0.0", 8),),
    Family.IPV6: (Prefix("::1", 128), Prefix("fe80::", 10)),
}

_ADVICE: Final = {
    errno.EOPNOTSUPP: "the kernel has no dummy devices; load them with `modprobe dummy`",
}


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
    found = {address for device, address in _addresses(family, what) if device != left_out}
    return tuple(sorted(found))


def _addresses(family: Family, what: str) -> list[tuple[int, str]]:
    """The addresses of a family, each with the number of its device."""
    with Link(socket.NETLINK_ROUTE) as link, decoding(what):
        answers = link.request(route.addresses_request(family), what)
        found = [(route.device_in(answer), route.change_in(answer, family)) for answer in answers]
    return [(device, change.address) for device, change in found if change is not None]


def devices() -> list[route.Device]:
    """Every network device."""
    what = "cannot read the network devices"
    with _route() as link, decoding(what):
        return [route.device_of(each) for each in link.request(route.devices_request(), what)]


async def watch_devices(changed: Callable[[], None]) -> None:
    """Call `changed` whenever something about a device changes, until cancelled."""
    with Subscription(socket.NETLINK_ROUTE, route.RTNLGRP_LINK) as changes:
        await changes.follow(lambda _: changed())


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
                device = route.device_in(message)
        if besides and device != left_out:
            left_out = device_index(besides)
        if device != left_out:
            changed()

    with Subscription(socket.NETLINK_ROUTE, *_ADDRESSES) as addresses:
        await addresses.follow(notify)


async def watch_device(
    device: str, family: Family, changed: Callable[[route.AddressChange | None], None]
) -> None:
    """Call `changed` for each address that is added to or removed from a device, until cancelled.

    None says that anything may have changed: the device was removed, or notifications were lost.
    """
    index = 0

    def notify(message: Message | None) -> None:
        nonlocal index
        if message is None:
            changed(None)
        elif message.type not in {route.RTM_NEWADDR, route.RTM_DELADDR}:
            before, index = index, device_index(device)
            if before not in {0, index}:
                changed(None)
        elif route.device_in(message) == index:
            change = route.change_in(message, family)
            if change is not None:
                changed(change)

    with Subscription(socket.NETLINK_ROUTE, route.RTNLGRP_LINK, *_ADDRESSES) as changes:
        index = device_index(device)
        await changes.follow(notify)


def ensure_dummy(device: str) -> bool:
    """Make a dummy device unless a device of that name exists, of any kind; whether it did."""
    if device_index(device):
        return False
    what = f"cannot make the dummy device {device}"
    with tolerating(errno.EEXIST), _route() as link:
        link.request(route.new_dummy_request(device), what)
        return True
    return False


def delete_dummy(device: str) -> bool:
    """Delete a dummy device; whether there was one. One of another kind is not ours: an error."""
    index = device_index(device)
    if not index:
        return False
    what = f"cannot read the device {device}"
    with tolerating(errno.ENODEV), _route() as link:
        with decoding(what):
            kind = route.kind_in(*link.request(route.device_request(index), what))
        if kind != "dummy":
            raise KernelError(
                f"the device {device} stays, because it is no dummy but of kind {kind or 'none'}"
            )
        link.request(route.delete_device_request(index), f"cannot delete the device {device}")
        return True
    return False


def device_addresses(device: str, family: Family) -> tuple[str, ...]:
    """The addresses of a device, but for loopback and link-local ones; none without the device."""
    index = device_index(device)
    if not index:
        return ()
    what = f"cannot read the addresses of {device}"
    unbound = _NOT_BOUND[family]
    return tuple(
        address
        for device, address in _addresses(family, what)
        if device == index and not any(contains(prefix, address) for prefix in unbound)
    )


def change_addresses(
    device: str, add: Collection[str], remove: Collection[str]
) -> dict[str, Refused]:
    """Bind and unbind single addresses; those that the kernel refused.

    It is no error when an address to be added is there, or one to be removed is not.
    """
    if not add and not remove:
        return {}
    what = f"cannot change the addresses of {device}"
    index = device_index(device)
    if not index:
        raise KernelError(f"{what}: there is no such device")
    changes = [(each, f"add the address {each} to", errno.EEXIST) for each in add]
    changes += [(each, f"remove the address {each} from", errno.EADDRNOTAVAIL) for each in remove]
    requests = [route.add_address_request(index, address) for address in add]
    requests += [route.remove_address_request(index, address) for address in remove]
    failures = {}
    with _route() as link:
        for place, error in link.send_all(requests, what).items():
            address, change, fine = changes[place]
            if error.errno != fine:
                failures[address] = link.error(f"cannot {change} {device}", error)
    klog.info("Changed addresses", v=4, device=device, bound=list(add), unbound=list(remove))
    return failures


def _route() -> Link:
    return Link(socket.NETLINK_ROUTE, _ADVICE)
