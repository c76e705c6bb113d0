"""The kernel's named packet counters, which iptables rules count with (nfnetlink_acct)."""

import errno
from collections.abc import Iterable

from kubeproxy.kernel.nfnetlink import Refused, open_netfilter, send, waiting
from kubeproxy.netlink.attribute import text, u64
from kubeproxy.netlink.message import (
    NLM_F_ACK,
    NLM_F_REQUEST,
    NLMSG_ERROR,
    Message,
    attributes,
    encode,
)
from kubeproxy.netlink.nfnetlink import NFGENMSG, refusal

_NEW = 7 << 8
_GET = 7 << 8 | 1
_NLM_F_CREATE = 0x400
_AF_NETLINK = 16
_NAME, _PACKETS, _BYTES = 1, 2, 3


def ensure_counters(names: Iterable[str]) -> dict[str, str]:
    """Make the counters that do not exist; those that cannot be made, with the reason."""
    failed: dict[str, str] = {}
    with open_netfilter() as link:
        for name in names:
            body = NFGENMSG.pack(_AF_NETLINK, 0, 0) + text(_NAME, name)
            body += u64(_PACKETS, 0) + u64(_BYTES, 0)
            flags = NLM_F_REQUEST | _NLM_F_CREATE | NLM_F_ACK
            what = f"cannot make the counter {name}"
            send(link, encode(Message(_NEW, flags, 1, body)), what)
            for answer in waiting(link):
                error = (
                    refusal(answer) if answer is not None and answer.type == NLMSG_ERROR else None
                )
                if error is not None and error.errno not in {errno.EBUSY, errno.EEXIST}:
                    failed[name] = str(Refused(what, error))
    return failed


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
                    found[name] = int.from_bytes(counter[_PACKETS], "big")
    return found
