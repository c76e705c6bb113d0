"""`nodePortAddresses`: which addresses of the node accept NodePort connections."""

from collections.abc import Iterable, Mapping
from typing import Final

from kubeproxy.base.inet import Family, Prefix, contains, parse_prefix

_LOOPBACK: Final = {Family.IPV4: Prefix("127.0.0.0", 8), Family.IPV6: Prefix("::1", 128)}
_EVERYTHING: Final = {
    Family.IPV4: Prefix("0.0.0.0", 0),  # noqa: S104  # a prefix, not an address to bind
    Family.IPV6: Prefix("::", 0),
}

PRIMARY: Final = "primary"
_FIXED: Final = {"localhost": tuple(_LOOPBACK.values()), "all": tuple(_EVERYTHING.values())}
KEYWORDS: Final = frozenset({PRIMARY, *_FIXED})


def expand(addresses: Iterable[str], node_ips: Mapping[Family, str]) -> tuple[Prefix, ...]:
    """The prefixes that CIDRs and keywords stand for, on a node with these addresses.

    A node address that is a loopback address stands for one that is not known, so `primary`
    leaves that family out.
    """
    expanded: list[Prefix] = []
    for address in addresses:
        if address == PRIMARY:
            expanded += _primary(node_ips)
        elif address in _FIXED:
            expanded += _FIXED[address]
        elif (prefix := parse_prefix(address)) is not None:
            expanded.append(prefix)
    return tuple(expanded)


def _primary(node_ips: Mapping[Family, str]) -> Iterable[Prefix]:
    for family in Family:
        address = node_ips.get(family)
        if address is not None and not contains(_LOOPBACK[family], address):
            yield Prefix(address, family.bits)
