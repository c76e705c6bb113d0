"""The kernel's named packet counters, which iptables rules count with (nfnetlink_acct)."""

import contextlib
import errno
from collections.abc import Iterable

from kubeproxy.linux.netlink import nfnetlink as nf
from kubeproxy.linux.netlink.attribute import text, u64
from kubeproxy.linux.netlink.message import NLM_F_ACK, NLM_F_CREATE, Message
from kubeproxy.linux.netlink_socket import Refused, decoding
from kubeproxy.linux.nfnetlink import Nfnetlink

_AF_NETLINK = 16


def ensure_counters(names: Iterable[str]) -> dict[str, str]:
    """Make the counters that do not exist; those that cannot be made, with the reason."""
    failed: dict[str, str] = {}
    zero = u64(nf.NFACCT_PKTS, 0) + u64(nf.NFACCT_BYTES, 0)
    with Nfnetlink() as link:
        for name in names:
            new = _message(nf.NFNL_MSG_ACCT_NEW, name, NLM_F_ACK | NLM_F_CREATE, zero)
            try:
                link.request(new, f"cannot make the counter {name}")
            except Refused as error:
                if error.errno not in {errno.EBUSY, errno.EEXIST}:
                    failed[name] = str(error)
    return failed


def delete_counters(names: Iterable[str]) -> tuple[str, ...]:
    """Delete the counters that exist and that no rule counts with; those that were deleted."""
    deleted = []
    with Nfnetlink() as link:
        for name in names:
            delete = _message(nf.NFNL_MSG_ACCT_DEL, name, NLM_F_ACK)
            with contextlib.suppress(Refused):
                link.request(delete, f"cannot delete the counter {name}")
                deleted.append(name)
    return tuple(deleted)


def read_packets(names: Iterable[str]) -> dict[str, int]:
    """The packets that each counter has counted; those that do not exist are left out."""
    found: dict[str, int] = {}
    with Nfnetlink() as link:
        for name in names:
            what = f"cannot read the counter {name}"
            with contextlib.suppress(Refused), decoding(what):
                (answer,) = link.request(_message(nf.NFNL_MSG_ACCT_GET, name), what)
                found[name] = int.from_bytes(nf.attributes_in(answer)[nf.NFACCT_PKTS], "big")
    return found


def _message(kind: int, name: str, flags: int = 0, rest: bytes = b"") -> Message:
    return nf.message(kind, _AF_NETLINK, text(nf.NFACCT_NAME, name) + rest, flags)
