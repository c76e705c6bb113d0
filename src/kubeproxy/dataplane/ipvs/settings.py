"""What is fixed in ipvs mode, and how the operator set it up."""

import msgspec

from kubeproxy.base.inet import Prefix
from kubeproxy.table.quirks import Quirks

QUIRKS = Quirks(
    one_list=True,
    uses_remote=True,
    always_rejects=True,
    link_local_node_ports=False,
    binds_addresses=True,
    rewrites_loopback=False,
    rewrites_by_set=True,
)
"""What ipvs mode does otherwise than the policies say."""

DEFAULT_SCHEDULER = "rr"
DEVICE = "kube-ipvs0"
"""The dummy device that has the addresses of services."""


class Timeouts(msgspec.Struct, frozen=True):
    """After how many idle seconds connections are forgotten; 0 leaves the kernel's value."""

    tcp: int = 0
    tcp_fin: int = 0
    udp: int = 0


class IpvsSettings(msgspec.Struct, frozen=True):
    """How the operator set ipvs mode up.

    `excluded` are ranges whose virtual servers are never deleted. The period is how often real
    servers are looked at that wait for their last connections.
    """

    masquerade_bit: int = 14
    scheduler: str = DEFAULT_SCHEDULER
    excluded: tuple[Prefix, ...] = ()
    strict_arp: bool = False
    timeouts: Timeouts = Timeouts()
    drain_period: float = 60.0
