"""The kernel's virtual servers (ip_vs): read them, change many at a time, check for support."""

import contextlib
import errno
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.linux.netlink import ipvs as codec
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink_socket import Link, Refused, decoding, tolerating
from kubeproxy.linux.tools import ToolFailed, find, run

# An address for documentation: no service has it.
_PROBE: Final = codec.ServerKey(Protocol.TCP, "198.51.100.0", 20000)

# The families share one table. A list of it, which comes in pieces, misses some while servers of
# the other family are added and removed.
_TURN: Final = threading.Lock()

_LISTING: Final = Path("/proc/thread-self/net/ip_vs")  # of our own network namespace
_SCHEDULERS: Final = "rr wrr lc wlc lblc lblcr dh sh sed nq fo ovf mh"

_ADVICE: Final = {
    errno.EAFNOSUPPORT: "the kernel's ip_vs is built without IPv6 (CONFIG_IP_VS_IPV6)",
}


class IpvsMissing(KernelError):
    """The kernel has no ip_vs, or not the required scheduler."""


class Ipvs:
    """One socket to ip_vs, opened at the first use and after an error. Not for two threads."""

    def __init__(self) -> None:
        self._link: Link | None = None
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; the next use opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def servers(self, family: Family) -> dict[codec.ServerKey, codec.VirtualServer]:
        """All virtual servers of a family."""
        answers = self._dump_servers()
        with decoding("cannot list the virtual servers"):
            return dict(
                entry
                for entry in map(codec.server_in, answers)
                if entry is not None and family_of(entry[0].address) is family
            )

    def find(self, key: codec.ServerKey) -> codec.VirtualServer | None:
        """A virtual server; None when there is none."""
        what = f"cannot read the virtual server {key}"
        found = None
        with tolerating(errno.ESRCH), self._opened() as (link, number), decoding(what):
            found = codec.server_in(*link.request(codec.server_request(number, key), what))
        return None if found is None else found[1]

    def reals(self, key: codec.ServerKey) -> dict[codec.RealKey, codec.RealServer]:
        """The real servers of a virtual one; none when that does not exist."""
        what = f"cannot list the real servers of {key}"
        family = family_of(key.address)
        with self._opened() as (link, number), decoding(what):
            answers = link.request(codec.reals_request(number, key), what)
            return dict(codec.real_in(answer, family) for answer in answers)

    def listing(self) -> str:
        """All virtual servers of both families with their real servers, as the kernel lists them.

        At a fraction of what it costs to request the real servers of each; but what others
        change meanwhile may be in it or not.
        """
        try:
            with _TURN:
                return _LISTING.read_text()
        except OSError as error:
            raise KernelError(f"cannot read {_LISTING}: {error.strerror}") from error

    def connections(self) -> dict[codec.ServerKey, int]:
        """The connections that each virtual server has had since it was made, of both families."""
        answers = self._dump_servers()
        with decoding("cannot read the statistics of the virtual servers"):
            found = map(codec.connections_in, answers)
            return dict(entry for entry in found if entry is not None)

    def run(self, commands: Sequence[codec.Command]) -> dict[codec.Command, Refused]:
        """Carry out the commands in their order; those that the kernel refused.

        `Refused.errno` says why: EEXIST (it exists already), ESRCH (there is no such virtual
        server), ENOENT (no such real server, or scheduler).
        """
        if not commands:
            return {}
        what = f"cannot carry out {len(commands)} ipvs commands"
        if klog.enabled(9):
            klog.info("Commands for ipvs", v=9, commands="\n".join(map(codec.describe, commands)))
        with self._opened() as (link, number):
            requests = [codec.command_request(number, command) for command in commands]
            with _TURN:
                refused = link.send_all(requests, what)
        if any(error.errno == errno.ENOENT for error in refused.values()):
            self.close()  # the kernel also says this of a number that was ip_vs's before a reload
        return {
            commands[place]: link.error(f"cannot {codec.describe(commands[place])}", error)
            for place, error in refused.items()
        }

    def set_timeouts(self, tcp: int, tcp_fin: int, udp: int) -> None:
        """Set after how many idle seconds connections are forgotten; 0 leaves one as it is."""
        what = f"cannot set the timeouts of ipvs to {tcp}, {tcp_fin} and {udp} seconds"
        with self._opened() as (link, number):
            link.request(codec.timeouts_request(number, tcp, tcp_fin, udp), what)

    def check(self, scheduler: str) -> None:
        """Raise `IpvsMissing` unless the kernel has ip_vs and the scheduler.

        Both are loaded when they are modules. The scheduler is tried with a virtual server that
        exists for a moment, unless there is a server with it anyway.
        """
        self._load()
        if any(server.scheduler == scheduler for server in self.servers(Family.IPV4).values()):
            return
        delete = codec.DeleteServer(_PROBE)
        self.run([delete])  # a process that was killed may have left it
        add = codec.AddServer(_PROBE, codec.VirtualServer(scheduler))
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
            self._open()
        except IpvsMissing:
            modprobe = find("modprobe")
            if modprobe is None:
                raise
            try:
                run([modprobe, "-va", "ip_vs"])
            except ToolFailed as error:
                klog.warning("Failed to load the kernel module", module="ip_vs", err=error)
            self._open()

    def _dump_servers(self) -> list[Message]:
        with self._opened() as (link, number), _TURN:
            return link.request(codec.servers_request(number), "cannot list the virtual servers")

    @contextlib.contextmanager
    def _opened(self) -> Iterator[tuple[Link, int]]:
        """The socket, and the number that ip_vs has in this kernel."""
        try:
            yield self._open(), self._number
        except Refused as error:
            if error.errno != errno.ESRCH:
                self.close()
            raise

    def _open(self) -> Link:
        if self._link is not None:
            return self._link
        what = "cannot find ip_vs in the kernel"
        link = Link(codec.NETLINK_GENERIC, _ADVICE)
        try:
            with decoding(what):
                self._number = codec.number_in(*link.request(codec.number_request(), what))
        except KernelError as error:
            link.close()
            if isinstance(error, Refused) and error.errno == errno.ENOENT:
                raise IpvsMissing(
                    "the kernel has no ip_vs: load the module on the node with `modprobe ip_vs`"
                    " (a kernel has it when built with CONFIG_IP_VS), or use another proxy mode:"
                    " nftables or iptables"
                ) from error
            raise
        self._link = link
        return link
