"""What Kubernetes once had and took away: fields of the config file, and a mode.

Files outlive releases, so these are known by name. The releases are the first without them.
"""

from collections.abc import Mapping
from typing import Final

import msgspec


class Removed(msgspec.Struct, frozen=True):
    """Since which release of Kubernetes something is gone, and what to do instead."""

    release: str
    instead: str


_UDP: Final = (
    "set conntrack.udpTimeout and conntrack.udpStreamTimeout, or ipvs.udpTimeout in ipvs mode;"
    " this one was for userspace mode"
)

REMOVED_FIELDS: Final[Mapping[str, Removed]] = {
    "conntrack.max": Removed("1.15", "set conntrack.maxPerCore and conntrack.min"),
    # Still a field, which nobody reads.
    "portRange": Removed("1.26", "remove it: it was for userspace mode"),
    "resourceContainer": Removed(
        "1.16", "remove it: systemd or the container runtime puts the process into a cgroup"
    ),
    "udpIdleTimeout": Removed("1.26", _UDP),
    "udpTimeoutMilliseconds": Removed("1.10", _UDP),
}

REMOVED_MODES: Final[Mapping[str, Removed]] = {"userspace": Removed("1.26", "use nftables")}
