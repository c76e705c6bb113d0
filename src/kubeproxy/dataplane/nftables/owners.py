"""Whose an element is, as far as its key tells."""

from collections.abc import Iterable, Mapping

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.elements import (
    NFTA_SET_ELEM_KEY,
    frontend_key,
    shared_elements,
)
from kubeproxy.dataplane.nftables.language import DPORT, L4PROTO, Set
from kubeproxy.netlink.message import attributes
from kubeproxy.table.entries import Entry

_PROTOCOL_AND_PORT = 8


def owners_of(entries: Iterable[Entry]) -> dict[bytes, str]:
    """The service ports by what keys begin with; services by their cluster IPs.

    Keys of different kinds differ in size, so that one dictionary does for all.
    """
    found: dict[bytes, str] = {}
    for entry in entries:
        for frontend in entry.frontends:
            found[frontend_key(frontend, entry.protocol)] = str(entry.name)
        for set_, head in shared_elements(entry):
            service = f"{entry.name.namespace}/{entry.name.service}"
            found[key_in(head)] = service if set_ == names.CLUSTER_IPS else str(entry.name)
    return found


def owner_of(owners: Mapping[bytes, str], set_: Set, head: bytes) -> str:
    """The service port that an element belongs to; "" when none is known."""
    if set_.name == names.NODEPORT_ADDRESSES:
        return ""
    key = key_in(head)
    if set_.key[:2] == (L4PROTO, DPORT):
        key = key[:_PROTOCOL_AND_PORT]
    elif set_.key[1:3] == (L4PROTO, DPORT):
        key = key[: set_.key[0].type.size + _PROTOCOL_AND_PORT]
    return owners.get(key, "")


def key_in(head: bytes) -> bytes:
    """The key of an element."""
    return attributes(attributes(head)[NFTA_SET_ELEM_KEY])[1]
