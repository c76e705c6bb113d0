"""Table to kernel in ipvs mode.

Needs a kernel with ip_vs, and leaves everything in it. In the test kernel:
`PYTHONPATH=tests python -m uml -- python -m bench.ipvs 1000 10`. That kernel is a process itself
and slow: compare its figures with each other only.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from bench.clusters import Size
from bench.compiled import Compiled
from bench.shares import KERNEL, PROGRAMS, measure
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
from kubeproxy.dataplane.ipvs.settings import IpvsSettings
from kubeproxy.linux import ipset, ipvs, tools
from kubeproxy.linux import netlink_socket as netlink
from kubeproxy.linux.netlink_socket import open_netlink
from kubeproxy.linux.xtables import Xtables

CHANGES = 50


class TimedLink(socket.socket):
    """A netlink socket: the kernel works while something is sent or received."""

    send = KERNEL.on(socket.socket.send)
    recv_into = KERNEL.on(socket.socket.recv_into)


def open_timed(protocol: int) -> socket.socket:
    link = TimedLink(fileno=open_netlink(protocol).detach())
    link.setblocking(False)
    return link


@contextlib.contextmanager
def stopwatches() -> Iterator[None]:
    with (
        mock.patch.object(netlink, "open_netlink", open_timed),
        mock.patch.object(Path, "read_text", KERNEL.on(Path.read_text)),
        mock.patch.object(ipset, "run", PROGRAMS.on(tools.run)),
        mock.patch.object(Xtables, "save", PROGRAMS.on(Xtables.save)),
        mock.patch.object(Xtables, "restore", PROGRAMS.on(Xtables.restore)),
    ):
        yield


def start() -> IpvsDataplane:
    return IpvsDataplane(IpvsSettings(), ipvs.Ipvs(), Xtables(Family.IPV4))


if __name__ == "__main__":
    with stopwatches():
        ipvs.Ipvs().check("rr")
        asyncio.run(measure(Compiled(Size(*map(int, sys.argv[1:3]))), start, CHANGES))
