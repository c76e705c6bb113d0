"""The addresses of this machine's interfaces, and word when they change."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable

from kubeproxy.errors import KernelError
from kubeproxy.inet import Family
from kubeproxy.netlink.address import (
    RTMGRP_IPV4_IFADDR,
    RTMGRP_IPV6_IFADDR,
    address_in,
    dump_request,
)
from kubeproxy.netlink.message import NLMSG_DONE, NLMSG_ERROR, decode, encode, error_number

_DATAGRAM = 1 << 16


def interface_addresses(family: Family) -> tuple[str, ...]:
    """Every address of the family on every interface, sorted and once each."""
    try:
        return tuple(sorted(set(_dump(family))))
    except OSError as error:
        raise KernelError(f"cannot read the {family.value} addresses: {error}") from error


def _dump(family: Family) -> list[str]:
    found: list[str] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.send(encode(dump_request(family, sequence=1)))
        while True:
            for message in decode(link.recv(_DATAGRAM)):
                if message.type == NLMSG_DONE:
                    return found
                if message.type == NLMSG_ERROR:
                    number = error_number(message)
                    raise OSError(number, os.strerror(number))
                address = address_in(message, family)
                if address is not None:
                    found.append(address)


async def watch_addresses(changed: Callable[[], None]) -> None:
    """Call `changed` whenever an address comes or goes, until cancelled."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.setblocking(False)
        link.bind((0, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR))
        while True:
            # A lost notification (ENOBUFS) is one too: something changed.
            with contextlib.suppress(OSError):
                await loop.sock_recv(link, _DATAGRAM)
            changed()
