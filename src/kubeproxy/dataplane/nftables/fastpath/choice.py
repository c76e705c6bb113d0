"""Which network devices take part in the fast path."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from kubeproxy.linux.netlink.route import ARPHRD_ETHER, IFF_LOOPBACK, Device

_KINDS = frozenset({"", "veth", "bridge", "bond", "team", "vlan"})
"""Those that hand on what they are given as it is. Tunnels may want more than the flowtable keeps:
they take part only where they are asked for by name."""


def chosen(devices: Iterable[Device], patterns: Sequence[str]) -> tuple[str, ...]:
    """The names of those that match one of the patterns, sorted; without patterns the usual ones.

    Loopback never takes part.
    """
    return tuple(
        sorted(
            device.name
            for device in devices
            if not device.flags & IFF_LOOPBACK and _takes_part(device, patterns)
        )
    )


def _takes_part(device: Device, patterns: Sequence[str]) -> bool:
    if patterns:
        return any(fnmatchcase(device.name, pattern) for pattern in patterns)
    return device.type == ARPHRD_ETHER and device.kind in _KINDS
