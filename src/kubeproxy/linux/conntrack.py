"""The kernel's connection tracking: the UDP flows of a family, and their deletion.

Listing and deleting 100,000 flows takes a while: call both off the event loop
(`asyncio.to_thread`). Each call has a socket of its own.
"""

import errno
import socket
from collections.abc import Generator, Iterable, Iterator
from itertools import islice

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.linux.netlink.conntrack import Flow, delete_request, dump_request, flow_in
from kubeproxy.linux.netlink.message import (
    NLM_F_DUMP_INTR,
    NLMSG_DONE,
    NLMSG_ERROR,
    encode,
)
from kubeproxy.linux.netlink.nfnetlink import WHOLE_BATCH, MessageError, dump_error, refusal
from kubeproxy.linux.nfnetlink import Refused, open_netfilter, send, waiting
from kubeproxy.linux.understood import understood

_ATTEMPTS = 5
# Requests in one send: enough to make the system call cheap, few enough that all their refusals
# fit into the receive buffer.
_AT_ONCE = 512


def udp_flows(family: Family) -> Iterator[Flow]:
    """The UDP flows that are tracked.

    When the kernel breaks the listing off it is begun again, up to five times, and what came
    before is not taken back: a flow may come twice, and after the fifth time some may be missing.
    """
    what = f"cannot list the tracked {family.value} UDP flows"
    for _ in range(_ATTEMPTS):
        with open_netfilter() as link, understood(what):
            send(link, encode(dump_request(family, 1)), what)
            complete = yield from _listed(link, what)
        if complete:
            return


def delete(flows: Iterable[Flow]) -> int:
    """Delete the flows; how many there were. One that is gone already is no error."""
    deleted = 0
    remaining = iter(flows)
    with open_netfilter() as link:
        while chunk := list(islice(remaining, _AT_ONCE)):
            deleted += _delete(link, chunk)
    return deleted


def _listed(link: socket.socket, what: str) -> Generator[Flow, None, bool]:
    """The flows in the answer; returns whether it is all of them."""
    interrupted = False
    for message in waiting(link):
        if message is None:
            continue
        interrupted |= bool(message.flags & NLM_F_DUMP_INTR)
        flow = flow_in(message)
        if flow is not None:
            yield flow
        elif message.type in {NLMSG_ERROR, NLMSG_DONE}:
            failure = dump_error(message)
            if failure not in {0, errno.EINTR}:
                raise Refused(what, MessageError(WHOLE_BATCH, failure))
            return not failure and not interrupted
    return False


def _delete(link: socket.socket, flows: list[Flow]) -> int:
    """Delete some flows. The kernel answers only when it refuses."""
    what = f"cannot delete {len(flows)} tracked UDP flows"
    requests = (encode(delete_request(flow, number)) for number, flow in enumerate(flows, 1))
    send(link, b"".join(requests), what)
    with understood(what):
        refusals = [refusal(answer) for answer in waiting(link) if answer is not None]
    for error in refusals:
        if error is not None and error.errno != errno.ENOENT:
            raise Refused(what, msgspec.structs.replace(error, index=WHOLE_BATCH))
    return len(flows) - len(refusals)
