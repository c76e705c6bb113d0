"""Named counters of an nftables table: how many packets they have counted."""

import errno
from collections.abc import Iterable

from kubeproxy.linux.netlink.attribute import text, u32
from kubeproxy.linux.netlink.message import attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG, NFT_MSG_GETOBJ
from kubeproxy.linux.nfnetlink import Nfnetlink, Refused
from kubeproxy.linux.understood import understood

_COUNTER = 1
_TABLE, _NAME, _TYPE, _DATA = 1, 2, 3, 4
_PACKETS = 2


def read_packets(family: int, table: str, names: Iterable[str]) -> dict[str, int]:
    """The packets of each counter; those that do not exist are left out."""
    found: dict[str, int] = {}
    with Nfnetlink() as kernel:
        for name in names:
            asked = text(_TABLE, table) + text(_NAME, name) + u32(_TYPE, _COUNTER)
            try:
                answer = kernel.get(NFT_MSG_GETOBJ, family, asked)
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            with understood(f"cannot read the counter {name}"):
                counter = attributes(attributes(answer.payload[NFGENMSG.size :])[_DATA])
                found[name] = int.from_bytes(counter[_PACKETS], "big")
    return found
