"""The kernel's virtual servers (ip_vs): read them, change many at a time, ask what it can do."""

import errno
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.linux.netlink.generic import NETLINK_GENERIC, number_in, number_request
from kubeproxy.linux.netlink.ipvs import (
    FAMILY_NAME,
    AddServer,
    Command,
    DeleteServer,
    RealKey,
    RealServer,
    ServerKey,
    Statistics,
    VirtualServer,
    command_request,
    describe,
    real_in,
    reals_request,
    server_in,
    server_request,
    server_statistics_in,
    servers_request,
    timeouts_request,
)
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink_socket import NetlinkError, ask, open_netlink, tell
from kubeproxy.linux.tools import ToolFailed, find, run
from kubeproxy.linux.understood import understood

# An address for documentation: nobody's service has it.
_PROBE: Final = ServerKey(Protocol.TCP, "198.51.100.0", 20000)

# The families have one table between them. Who lists it in pieces while the other family's
# servers come and go, misses some.
_TURN: Final = threading.Lock()

_LISTING: Final = Path("/proc/thread-self/net/ip_vs")  # of our own network namespace
_SCHEDULERS: Final = "rr wrr lc wlc lblc lblcr dh sh sed nq fo ovf mh"

_WHAT_TO_DO: Final = {
    errno.EPERM: "the process needs CAP_NET_ADMIN in its network namespace",
    errno.EAFNOSUPPORT: "the kernel's ip_vs is built without IPv6 (CONFIG_IP_VS_IPV6)",
}


class IpvsMissing(KernelError):
    """The kernel has no ip_vs, or not the scheduler that is asked for."""


class Ipvs:
    """One socket to ip_vs, opened at the first use and after an error. Not for two threads."""

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the socket back; the next use opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def servers(self, family: Family) -> dict[ServerKey, VirtualServer]:
        """All virtual servers of a family."""
        answers = self._dump_servers()
        with understood("cannot list the virtual servers"):
            return dict(
                entry
                for entry in map(server_in, answers)
                if entry is not None and family_of(entry[0].address) is family
            )

    def find(self, key: ServerKey) -> VirtualServer | None:
        """A virtual server; None when there is none."""
        link, number = self._opened()
        what = f"cannot read the virtual server {key}"
        try:
            answers = ask(link, server_request(number, key))
        except OSError as error:
            if error.errno == errno.ESRCH:
                return None
            raise self._failure(what, error) from error
        with understood(what):
            found = server_in(*answers)
        return None if found is None else found[1]

    def reals(self, key: ServerKey) -> dict[RealKey, RealServer]:
        """The real servers of a virtual one; none when that is not there."""
        link, number = self._opened()
        what = f"cannot list the real servers of {key}"
        try:
            answers = ask(link, reals_request(number, key))
        except OSError as error:
            raise self._failure(what, error) from error
        family = family_of(key.address)
        with understood(what):
            return dict(real_in(answer, family) for answer in answers)

    def listing(self) -> str:
        """All virtual servers of both families with their real servers, as the kernel lists them.

        At a fraction of what it costs to ask for the real servers of each; but what others
        change meanwhile may be in it or not.
        """
        try:
            with _TURN:
                return _LISTING.read_text()
        except OSError as error:
            raise NetlinkError(f"cannot read {_LISTING}", error) from error

    def statistics(self) -> dict[ServerKey, Statistics]:
        """What each virtual server, of both families, has seen since it was made."""
        answers = self._dump_servers()
        with understood("cannot read what the virtual servers have seen"):
            found = map(server_statistics_in, answers)
            return dict(entry for entry in found if entry is not None)

    def run(self, commands: Sequence[Command]) -> dict[Command, NetlinkError]:
        """Carry out the commands in their order; those that the kernel refused.

        `NetlinkError.errno` tells why: EEXIST (it is there already), ESRCH (there is no such
        virtual server), ENOENT (no such real server, or scheduler).
        """
        if not commands:
            return {}
        link, number = self._opened()
        requests = [command_request(number, command) for command in commands]
        try:
            with _TURN:
                refused = tell(link, requests)
        except OSError as error:
            what = f"cannot carry out {len(commands)} ipvs commands"
            raise self._failure(what, error) from error
        if any(error.errno == errno.ENOENT for error in refused.values()):
            self.close()  # the kernel also says this of a number that was ip_vs's before a reload
        return {commands[place]: _refusal(commands[place], refused[place]) for place in refused}

    def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        """Set after how many idle seconds connections are forgotten; 0 leaves one as it is."""
        link, number = self._opened()
        what = f"cannot set the timeouts of ipvs to {tcp}, {tcp_fin} and {udp} seconds"
        try:
            refused = tell(link, [timeouts_request(number, tcp, tcp_fin, udp)])
        except OSError as error:
            raise self._failure(what, error) from error
        for refusal in refused.values():
            raise NetlinkError(what, refusal, _WHAT_TO_DO.get(refusal.errno or 0, ""))

    def check(self, scheduler: str) -> None:
        """Raise `IpvsMissing` unless the kernel has ip_vs and the scheduler.

        Both are loaded when they are modules. The kernel is asked for a scheduler by a virtual
        server that uses it, for a moment, unless there is such a server anyway.
        """
        self._load()
        if any(server.scheduler == scheduler for server in self.servers(Family.IPV4).values()):
            return
        delete = DeleteServer(_PROBE)
        self.run([delete])  # a process that was killed may have left it
        add = AddServer(_PROBE, VirtualServer(scheduler))
        refusal = self.run([add]).get(add)
        self.run([delete])
        if refusal is None:
            return
        if refusal.errno != errno.ENOENT:
            raise refusal
        raise IpvsMissing(
            f"the kernel has no ipvs scheduler {scheduler}: load it with `modprobe"
            f" ip_vs_{scheduler}`, or set ipvs.scheduler (--ipvs-scheduler) to another; those"
            f" that Linux knows are {_SCHEDULERS}"
        )

    def _load(self) -> None:
        """Open the socket; when the kernel has no ip_vs, load the module first."""
        try:
            self._opened()
        except IpvsMissing:
            modprobe = find("modprobe")
            if modprobe is None:
                raise
            try:
                run([modprobe, "-va", "ip_vs"])
            except ToolFailed as error:
                klog.warning("Failed to load the kernel module", module="ip_vs", err=error)
            self._opened()

    def _dump_servers(self) -> list[Message]:
        link, number = self._opened()
        try:
            with _TURN:
                return ask(link, servers_request(number))
        except OSError as error:
            raise self._failure("cannot list the virtual servers", error) from error

    def _opened(self) -> tuple[socket.socket, int]:
        """The socket, and the number that ip_vs has in this kernel."""
        if self._link is not None:
            return self._link, self._number
        what = "cannot ask the kernel for ip_vs"
        try:
            link = open_netlink(NETLINK_GENERIC)
        except OSError as error:
            raise NetlinkError("cannot open a generic netlink socket", error) from error
        try:
            with understood(what):
                number = number_in(*ask(link, number_request(FAMILY_NAME)))
        except OSError as error:
            link.close()
            if error.errno == errno.ENOENT:
                raise IpvsMissing(
                    "the kernel has no ip_vs: load the module on the node with `modprobe ip_vs`"
                    " (a kernel has it when built with CONFIG_IP_VS), or use another proxy mode:"
                    " nftables or iptables"
                ) from error
            raise NetlinkError(what, error) from error
        except KernelError:
            link.close()
            raise
        self._link, self._number = link, number
        return self._link, self._number

    def _failure(self, what: str, error: OSError) -> NetlinkError:
        """The error to raise; the socket is not used again."""
        self.close()
        return NetlinkError(what, error, _WHAT_TO_DO.get(error.errno or 0, ""))


def _refusal(command: Command, error: OSError) -> NetlinkError:
    what = f"cannot {describe(command)}"
    return NetlinkError(what, error, _WHAT_TO_DO.get(error.errno or 0, ""))
