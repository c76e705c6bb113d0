"""The kernel's named packet counters, which iptables rules count with (nfnetlink_acct)."""

import errno
import socket
from collections.abc import Iterable

from kubeproxy.linux.netlink.attribute import text, u64
from kubeproxy.linux.netlink.message import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    Message,
    attributes,
    encode,
)
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, WHOLE_BATCH, MessageError, refusal
from kubeproxy.linux.nfnetlink import Refused, open_netfilter, send, waiting
from kubeproxy.linux.understood import understood

_NEW = 7 << 8
_GET = 7 << 8 | 1
_DELETE = 7 << 8 | 3
_NLM_F_CREATE = 0x400
_AF_NETLINK = 16
_NAME, _PACKETS, _BYTES = 1, 2, 3


def ensure_counters(names: Iterable[str]) -> dict[str, str]:
    """Make the counters that do not exist; those that cannot be made, with the reason."""
    failed: dict[str, str] = {}
    zero = u64(_PACKETS, 0) + u64(_BYTES, 0)
    with open_netfilter() as link:
        for name in names:
            what = f"cannot make the counter {name}"
            error = _told(link, _NEW, _NLM_F_CREATE, text(_NAME, name) + zero, what)
            if error is not None and error.errno not in {errno.EBUSY, errno.EEXIST}:
                failed[name] = str(Refused(what, error))
    return failed


def delete_counters(names: Iterable[str]) -> tuple[str, ...]:
    """Delete the counters that exist and that no rule counts with; those that were deleted."""
    with open_netfilter() as link:
        return tuple(
            name
            for name in names
            if not _told(link, _DELETE, 0, text(_NAME, name), f"cannot delete the counter {name}")
        )


def read_packets(names: Iterable[str]) -> dict[str, int]:
    """The packets that each counter has counted; those that do not exist are left out."""
    found: dict[str, int] = {}
    with open_netfilter() as link:
        for name in names:
            body = NFGENMSG.pack(_AF_NETLINK, 0, 0) + text(_NAME, name)
            what = f"cannot read the counter {name}"
            send(link, encode(Message(_GET, NLM_F_REQUEST, 1, body)), what)
            for answer in waiting(link):
                if answer is not None and answer.type == _NEW:
                    counter = attributes(answer.payload[NFGENMSG.size :])
                    with understood(what):
                        found[name] = int.from_bytes(counter[_PACKETS], "big")
    return found


def _told(
    link: socket.socket, kind: int, flags: int, payload: bytes, what: str
) -> MessageError | None:
    """Have the kernel do something; why it did not."""
    body = NFGENMSG.pack(_AF_NETLINK, 0, 0) + payload
    send(link, encode(Message(kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, body)), what)
    answers = [each for each in waiting(link) if each is not None and each.type == NLMSG_ERROR]
    with understood(what):
        return refusal(answers[0]) if answers else MessageError(WHOLE_BATCH, errno.ENOBUFS)
