"""What `iptables-save` and the kernel list -> what can be compared with what is wanted."""

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family, unpack
from kubeproxy.linux.netlink.ipvs import RealKey, ServerKey

_HEADING = 3  # lines of the kernel's list that name its columns


def listed_rules(saved: str) -> dict[str, tuple[str, ...]]:
    """The rules of each chain of the one table that was saved."""
    found: dict[str, list[str]] = {}
    for line in saved.split("\n"):
        if line.startswith(":"):
            found[line[1:].split(" ", 1)[0]] = []
        elif line.startswith("-A "):
            chain, _, rule = line[3:].partition(" ")
            found.setdefault(chain, []).append(rule)
    return {chain: tuple(rules) for chain, rules in found.items()}


def listed_weights(listing: str, family: Family) -> dict[ServerKey, dict[RealKey, int]]:
    """The kernel's list of all virtual servers -> the weights of their real servers."""
    found: dict[ServerKey, dict[RealKey, int]] = {}
    places: dict[str, RealKey] = {}
    is_ipv6 = family is Family.IPV6
    weights: dict[RealKey, int] = {}
    for line in listing.split("\n")[_HEADING:]:
        words = line.split(maxsplit=4)
        if not words or words[0] != "->":
            weights = {}  # of a virtual server that is none of ours
            if words and words[0] in PROTOCOL_BY_NAME and words[1].startswith("[") is is_ipv6:
                place = _place(words[1])
                weights = found[ServerKey(PROTOCOL_BY_NAME[words[0]], *place)] = {}
            continue
        if words[1] not in places:
            places[words[1]] = _place(words[1])
        weights[places[words[1]]] = int(words[3])
    return found


def _place(text: str) -> RealKey:
    """An address in hexadecimal digits, that of IPv6 in brackets, and a port."""
    address, _, port = text.rpartition(":")
    return RealKey(unpack(bytes.fromhex(address.strip("[]").replace(":", ""))), int(port, 16))
