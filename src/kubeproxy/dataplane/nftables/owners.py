"""Which service port an element belongs to, by its key."""

from collections.abc import Iterable, Mapping

from kubeproxy.dataplane.nftables import program as names
from kubeproxy.dataplane.nftables.elements import (
    frontend_key,
    key_in,
    shared_elements,
)
from kubeproxy.dataplane.nftables.language import DPORT, L4PROTO, Set
from kubeproxy.dataplane.nftables.placed import Placed

_PROTOCOL_AND_PORT = 8
_LIST = b"list"


def owners_of(placed: Iterable[Placed]) -> dict[bytes, str]:
    """The names of service ports by the start of their keys; of services by their cluster IPs.

    A list of allowed sources belongs to the first that uses it. Keys of different kinds differ in
    size or have a prefix, so that one dictionary is enough.
    """
    found: dict[bytes, str] = {}
    for each in placed:
        entry = each.entry
        if each.sources:
            found.setdefault(_LIST + each.sources.to_bytes(4, "big"), str(entry.name))
        for frontend in entry.frontends:
            found[frontend_key(frontend, entry.protocol)] = str(entry.name)
        for set_, head in shared_elements(entry):
            owner = entry.name.owner if set_ == names.CLUSTER_IPS else entry.name
            found[key_in(head)] = str(owner)
    return found


def owner_of(owners: Mapping[bytes, str], set_: Set, head: bytes) -> str:
    """The service port that an element belongs to; "" when that is unknown."""
    if set_.name == names.NODEPORT_ADDRESSES:
        return ""
    key = key_in(head)
    if set_.name == names.FIREWALL_SOURCES:
        return owners.get(_LIST + key[:4], "")
    if set_.key[:2] == (L4PROTO, DPORT):
        key = key[:_PROTOCOL_AND_PORT]
    elif set_.key[1:3] == (L4PROTO, DPORT):
        key = key[: set_.key[0].type.size + _PROTOCOL_AND_PORT]
    return owners.get(key, "")
