"""The dummy device that ipvs mode keeps, and its addresses. It has to exist, not to be up."""

import errno
import socket
from collections.abc import Collection
from typing import Final

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Prefix, contains
from kubeproxy.linux.links import device_index
from kubeproxy.linux.netlink.route import (
    add_address_request,
    address_in,
    addresses_request,
    delete_device_request,
    device_in,
    device_request,
    kind_in,
    new_dummy_request,
    remove_address_request,
)
from kubeproxy.linux.netlink_socket import Link, Refused, decoding

# What a device has by itself, and no service can have.
_NOT_BOUND: Final = {
    Family.IPV4: (Prefix("127.0.0.0", 8),),
    Family.IPV6: (Prefix("::1", 128), Prefix("fe80::", 10)),
}

_ADVICE: Final = {
    errno.EOPNOTSUPP: "the kernel has no dummy devices; load them with `modprobe dummy`",
}


def ensure_dummy(device: str) -> bool:
    """Make a dummy device unless a device of that name exists, of any kind; whether it did."""
    if device_index(device):
        return False
    what = f"cannot make the dummy device {device}"
    with _route() as link:
        for error in link.send_all([new_dummy_request(device)], what).values():
            if error.errno == errno.EEXIST:
                return False
            raise link.error(what, error)
    return True


def delete_dummy(device: str) -> bool:
    """Delete a dummy device; whether there was one. One of another kind is not ours: an error."""
    index = device_index(device)
    if not index:
        return False
    what = f"cannot read the device {device}"
    try:
        with _route() as link:
            with decoding(what):
                kind = kind_in(*link.request(device_request(index), what))
            if kind != "dummy":
                raise KernelError(
                    f"the device {device} stays, because it is no dummy but of kind"
                    f" {kind or 'none'}"
                )
            what = f"cannot delete the device {device}"
            for error in link.send_all([delete_device_request(index)], what).values():
                raise link.error(what, error)
    except Refused as error:
        if error.errno == errno.ENODEV:
            return False
        raise
    return True


def device_addresses(device: str, family: Family) -> tuple[str, ...]:
    """The addresses of a device, but for loopback and link-local ones; none without the device."""
    index = device_index(device)
    if not index:
        return ()
    what = f"cannot read the addresses of {device}"
    with _route() as link, decoding(what):
        answers = link.request(addresses_request(family), what)
        found = (address_in(answer, family) for answer in answers if device_in(answer) == index)
        return tuple(
            address for address in found if address is not None and _is_bound(address, family)
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
    changes = [(address, f"add the address {address} to", errno.EEXIST) for address in add]
    changes += [
        (address, f"remove the address {address} from", errno.EADDRNOTAVAIL) for address in remove
    ]
    requests = [add_address_request(index, address) for address in add]
    requests += [remove_address_request(index, address) for address in remove]
    failures = {}
    with _route() as link:
        for place, error in link.send_all(requests, what).items():
            address, change, fine = changes[place]
            if error.errno != fine:
                failures[address] = link.error(f"cannot {change} {device}", error)
    return failures


def _route() -> Link:
    return Link(socket.NETLINK_ROUTE, _ADVICE)


def _is_bound(address: str, family: Family) -> bool:
    return not any(contains(prefix, address) for prefix in _NOT_BOUND[family])
