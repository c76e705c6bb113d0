"""The settings of userspace mode, and where it differs."""

from typing import Final

import msgspec

from kubeproxy.table.quirks import Loopback, Quirks

TABLE: Final = "kube-proxy-userspace"

QUIRKS: Final = Quirks(
    relays=True,
    loopback_node_ports=Loopback.REDIRECT,
)


class Mapped(msgspec.Struct, frozen=True):
    """A place on this machine that leads to a service port, because the operator says so.

    `port` is the name or the number of the port; "" is the only one of its Service.
    """

    address: str
    number: int
    namespace: str
    service: str
    port: str = ""


class UserspaceSettings(msgspec.Struct, frozen=True):
    """What userspace mode reads of the configuration.

    `first_port` to `last_port` are those that listeners may have; 0 leaves them to the kernel.
    `mapped` are places on this machine for service ports, for where no rules can be written.
    """

    workers: int = 1
    udp_idle_seconds: float = 0.25
    first_port: int = 0
    last_port: int = 0
    mapped: tuple[Mapped, ...] = ()
