"""Defaults of the configuration.

Absent fields already have their defaults from `types`. Here, a zero that was written counts as
absent too, where upstream treats it so (not for the masquerade bits, the OOM score, localhost
NodePorts and the four conntrack fields with defaults: their zeros mean zero).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family, family_of, parse_address
from kubeproxy.config.errors import Notice
from kubeproxy.config.types import KubeProxyConfiguration, LocalMode, Strings, put
from kubeproxy.config.values import with_port

HEALTHZ_PORT: Final = 10256
METRICS_PORT: Final = 10249

ANY_IPV4: Final = "0.0.0.0"  # noqa: S104  # upstream's default
LOOPBACK_IPV4: Final = "127.0.0.1"

_ZERO_IS_ABSENT: Final = (
    "client_connection.content_type",
    "client_connection.qps",
    "client_connection.burst",
    "logging.format",
    "logging.flush_frequency",
    "iptables.sync_period",
    "iptables.min_sync_period",
    "ipvs.sync_period",
    "nftables.sync_period",
    "nftables.min_sync_period",
    "config_sync_period",
)


class KnownMode(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration has to know of a mode."""

    name: str
    """The value of `mode` in the configuration."""

    gate: str = ""
    """The feature gate without which it cannot be used."""

    node_port_addresses: Strings = ()
    """What an empty `nodePortAddresses` stands for; empty as well, it is every address."""

    notices: Callable[[KubeProxyConfiguration], Iterable[Notice]] = lambda _config: ()
    """What to log when it is used; `mode` is empty when it is used by default."""

    problems: Callable[[KubeProxyConfiguration], Iterator[str]] = lambda _config: iter(())
    """What is wrong with its section, when it is used."""


Modes = Mapping[str, KnownMode]
"""By name; the first one is the default."""


def with_defaults(config: KubeProxyConfiguration) -> KubeProxyConfiguration:
    """A configuration as decoded, with zeros replaced; the mode is left to the platform."""
    absent = KubeProxyConfiguration()
    for path in _ZERO_IS_ABSENT:
        value = attrgetter(path)
        if not value(config):
            config = put(config, path, value(absent))
    bind_address = config.bind_address or ANY_IPV4
    # An address that cannot be read counts as IPv6, as upstream.
    address = parse_address(bind_address)
    is_ipv4 = address is not None and family_of(address) is Family.IPV4
    healthz, metrics = (ANY_IPV4, LOOPBACK_IPV4) if is_ipv4 else ("::", "::1")
    return replace(
        config,
        bind_address=bind_address,
        healthz_bind_address=with_port(config.healthz_bind_address or healthz, HEALTHZ_PORT),
        metrics_bind_address=with_port(config.metrics_bind_address or metrics, METRICS_PORT),
    )


def with_platform_defaults(
    config: KubeProxyConfiguration, modes: Modes
) -> tuple[KubeProxyConfiguration, tuple[Notice, ...]]:
    """The mode and what follows from it; an unknown one is left to validation."""
    name = config.mode or next(iter(modes))
    mode = modes.get(name, KnownMode(name=name))
    effective = replace(
        config,
        mode=name,
        node_port_addresses=config.node_port_addresses or mode.node_port_addresses,
        detect_local_mode=config.detect_local_mode or LocalMode.CLUSTER_CIDR.value,
    )
    return effective, tuple(mode.notices(config))
