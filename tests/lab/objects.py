"""All that the kernel says of our table, but for the elements: attribute by attribute."""

from collections.abc import Mapping

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.message import Message, attributes
from kubeproxy.linux.netlink.nfnetlink import NFGENMSG
from kubeproxy.linux.netlink.nftables import (
    NFT_MSG_GETCHAIN,
    NFT_MSG_GETOBJ,
    NFT_MSG_GETRULE,
    NFT_MSG_GETSET,
    NFT_MSG_GETTABLE,
)
from kubeproxy.linux.nfnetlink import Nfnetlink
from lab.namespaces import Namespace

Objects = Mapping[str, list[dict[int, bytes]]]

# Numbers that the kernel gives out: handles, the place of a rule, counts of uses and elements.
_GIVEN_OUT = {
    "table": (NFT_MSG_GETTABLE, {3, 4}),
    "sets": (NFT_MSG_GETSET, {16, 20}),
    "counters": (NFT_MSG_GETOBJ, {5, 6}),
    "chains": (NFT_MSG_GETCHAIN, {2, 6}),
    "rules": (NFT_MSG_GETRULE, {3, 6}),
}


def objects(namespace: Namespace, family: Family) -> Objects:
    """The objects by kind, in the kernel's order, without the numbers that it gave out."""
    payload = text(1, "kube-proxy")
    with namespace.entered():
        kernel = Nfnetlink()
    with kernel:
        return {
            name: [_without(m, given_out) for m in kernel.dump(kind, NFPROTO[family], payload)]
            for name, (kind, given_out) in _GIVEN_OUT.items()
        }


def _without(message: Message, given_out: set[int]) -> dict[int, bytes]:
    found = attributes(message.payload[NFGENMSG.size :])
    return {kind: value for kind, value in found.items() if kind not in given_out}
