"""The dummy device that ipvs mode keeps, and its addresses. It needs to be there, not to be up."""

import errno
import socket
from collections.abc import Collection
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Prefix, contains
from kubeproxy.linux.links import device_index
from kubeproxy.linux.netlink.address import (
    add_request,
    address_in,
    device_in,
    dump_request,
    remove_request,
)
from kubeproxy.linux.netlink.link import delete_request, kind_in, link_request, new_dummy_request
from kubeproxy.linux.netlink_socket import NetlinkError, ask, open_netlink, tell
from kubeproxy.linux.understood import understood

# What a device has by itself, or what is nobody's service.
_NOT_BOUND: Final = {
    Family.IPV4: (Prefix("127.0.0.0", 8),),
    Family.IPV6: (Prefix("::1", 128), Prefix("fe80::", 10)),
}

_WHAT_TO_DO: Final = {
    errno.EPERM: "the process needs CAP_NET_ADMIN in its network namespace",
    errno.EOPNOTSUPP: "the kernel has no dummy devices; load them with `modprobe dummy`",
}


def ensure_dummy(device: str) -> bool:
    """Make a dummy device unless a device of that name is there, of any kind; whether it did."""
    if device_index(device):
        return False
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            refused = tell(link, [new_dummy_request(device)]).get(0)
    except OSError as error:
        refused = error
    if refused is None:
        return True
    if refused.errno == errno.EEXIST:
        return False
    raise _failure(f"cannot make the dummy device {device}", refused)


def delete_dummy(device: str) -> bool:
    """Delete a dummy device; whether there was one. One of another kind is not ours: an error."""
    index = device_index(device)
    if not index:
        return False
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            with understood(f"cannot read the device {device}"):
                kind = kind_in(*ask(link, link_request(index)))
            if kind != "dummy":
                raise KernelError(
                    f"the device {device} stays, because it is no dummy but of kind"
                    f" {kind or 'none'}"
                )
            for refused in tell(link, [delete_request(index)]).values():
                raise refused
    except OSError as error:
        if error.errno == errno.ENODEV:
            return False
        raise _failure(f"cannot delete the device {device}", error) from error
    return True


def device_addresses(device: str, family: Family) -> tuple[str, ...]:
    """The addresses of a device, but for loopback and link-local ones; none without the device."""
    index = device_index(device)
    if not index:
        return ()
    what = f"cannot read the addresses of {device}"
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            answers = ask(link, dump_request(family, 1))
    except OSError as error:
        raise _failure(what, error) from error
    with understood(what):
        found = (address_in(answer, family) for answer in answers if device_in(answer) == index)
        return tuple(
            address for address in found if address is not None and _is_bound(address, family)
        )


def change_addresses(
    device: str, add: Collection[str], remove: Collection[str]
) -> dict[str, NetlinkError]:
    """Bind and unbind single addresses; those that the kernel refused.

    It is no error when an address to be added is there, or one to be removed is not.
    """
    if not add and not remove:
        return {}
    what = f"cannot change the addresses of {device}"
    index = device_index(device)
    if not index:
        raise KernelError(f"{what}: there is no such device")
    added, removed = tuple(add), tuple(remove)
    requests = [add_request(index, address) for address in added]
    requests += [remove_request(index, address) for address in removed]
    try:
        with open_netlink(socket.NETLINK_ROUTE) as link:
            refused = tell(link, requests)
    except OSError as error:
        raise _failure(what, error) from error
    failures = {}
    for place, refusal in refused.items():
        if place < len(added):
            address, change, fine = added[place], "add the address {} to {}", errno.EEXIST
        else:
            address, change = removed[place - len(added)], "remove the address {} from {}"
            fine = errno.EADDRNOTAVAIL
        if refusal.errno != fine:
            failures[address] = _failure(f"cannot {change.format(address, device)}", refusal)
    return failures


def _is_bound(address: str, family: Family) -> bool:
    return not any(contains(prefix, address) for prefix in _NOT_BOUND[family])


def _failure(what: str, error: OSError) -> NetlinkError:
    return NetlinkError(what, error, _WHAT_TO_DO.get(error.errno or 0, ""))
