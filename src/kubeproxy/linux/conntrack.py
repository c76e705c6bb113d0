"""The kernel's connection tracking: UDP flows, their deletion, and events of new connections.

Listing and deleting 100,000 flows takes a while: call both off the event loop
(`asyncio.to_thread`). Each call has a socket of its own.
"""

import contextlib
import errno
from collections.abc import Iterable, Iterator
from itertools import islice

from kubeproxy.base.errors import OperatorError
from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink import conntrack as ct
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NETLINK_NETFILTER
from kubeproxy.linux.netlink_socket import ATTEMPTS, Refused, Subscription, decoding, tolerating
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.sysctl import read_sysctl

_AT_ONCE = 512

_EVENTS = "net.netfilter.nf_conntrack_events"
_OFF = (
    f"the kernel sends no events of new connections, because sysctl {_EVENTS} is 0: "
    f"run `sysctl -w {_EVENTS}=1`"
)
_NOT_THERE = (
    "the kernel cannot send events of new connections: load the module nf_conntrack_netlink (a "
    f"kernel without sysctl {_EVENTS} was built without CONFIG_NF_CONNTRACK_EVENTS)"
)
_NO_RIGHT = (
    "cannot listen to connection tracking: that needs CAP_NET_ADMIN in the node's network "
    "namespace; run it as root on the node, or in the pod of kube-proxy"
)


def udp_flows(family: Family) -> Iterator[ct.Flow]:
    """The UDP flows that are tracked.

    When the kernel interrupts the listing it is started again, up to five times, and what came
    before is not taken back: a flow may come twice, and after the fifth time some may be missing.
    """
    what = f"cannot list the tracked {family.value} UDP flows"
    for _ in range(ATTEMPTS):
        with tolerating(errno.EINTR), Nfnetlink() as link, decoding(what):
            for message in link.answers(ct.dump_request(family), what):
                flow = ct.flow_in(message)
                if flow is not None:
                    yield flow
            return


def offloaded(family: Family) -> int:
    """How many connections of a family a flowtable forwards."""
    what = f"cannot list the tracked {family.value} connections"
    with Nfnetlink() as link, decoding(what):
        answers = link.request(ct.offloaded_request(family), what)
        return sum(bool(ct.status_in(each.payload) & ct.IPS_OFFLOAD) for each in answers)


def statuses(
    connections: Iterable[ct.Connection],
) -> Iterator[tuple[ct.Connection, int | None]]:
    """Each connection with the status of its entry; None when it has none."""
    what = "cannot read a tracked connection"
    with Nfnetlink() as link:
        for connection in connections:
            status = None
            with tolerating(errno.ENOENT), decoding(what):
                answers = link.request(ct.entry_request(connection), what)
                status = next((ct.status_in(each.payload) for each in answers), None)
            yield connection, status


def delete(flows: Iterable[ct.Flow]) -> int:
    """Delete the flows; how many there were. One that is gone already is no error."""
    return _delete(map(ct.delete_request, flows), "UDP flows")


def forget(family: Family, connections: Iterable[ct.TcpConnection]) -> int:
    """Delete the entries of connections; how many there were."""
    return _delete((ct.forget_request(family, each) for each in connections), "connections")


def _delete(requests: Iterable[Message], of: str) -> int:
    deleted = 0
    remaining = iter(requests)
    with Nfnetlink() as link:
        while chunk := list(islice(remaining, _AT_ONCE)):
            what = f"cannot delete {len(chunk)} tracked {of}"
            refused = link.send_all(chunk, what)
            for error in refused.values():
                if error.errno != errno.ENOENT:
                    raise link.error(what, error)
            deleted += len(chunk) - len(refused)
    return deleted


class ConnectionWatch(Subscription):
    """Gets an event of each new connection.

    What comes faster than it is read waits in a buffer of up to 16 MB, some 13,000 connections;
    beyond that it is lost, and counted.
    """

    def __init__(self) -> None:
        try:
            super().__init__(NETLINK_NETFILTER, ct.NFNLGRP_CONNTRACK_NEW)
        except Refused as error:
            raise OperatorError(_NO_RIGHT) if error.errno == errno.EPERM else error from None
        # The setting is there only now: joining loads the module.
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            events = read_sysctl(_EVENTS)
            if not events:
                raise OperatorError(_NOT_THERE if events is None else _OFF)
            undo.pop_all()

    def events(self, most: int) -> Iterator[bytes]:
        """Up to so many events that are in the buffer, undecoded."""
        for _ in range(most):
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # these are in `lost`
                    raise self.failed("cannot read new connections", error) from error
            else:
                yield bytes(self._buffer[:size])
