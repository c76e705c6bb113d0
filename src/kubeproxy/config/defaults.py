"""Defaults of the configuration.

Absent fields already have their defaults from `types`. Here, a zero that was written counts as
absent too, where upstream treats it so (not for the masquerade bits, the OOM score, localhost
NodePorts and the four conntrack fields with defaults: their zeros mean zero).
"""

from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.inet import Family, family_of, parse_address
from kubeproxy.config.errors import Level, Notice
from kubeproxy.config.types import IPTables, KubeProxyConfiguration, LocalMode, Mode, put
from kubeproxy.config.values import with_port

HEALTHZ_PORT: Final = 10256
METRICS_PORT: Final = 10249

ANY_IPV4: Final = "0.0.0.0"  # noqa: S104  # upstream's default

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


def with_defaults(config: KubeProxyConfiguration) -> KubeProxyConfiguration:
    """A configuration as decoded, with zeros replaced; the mode is left to the platform."""
    absent = KubeProxyConfiguration()
    for path in _ZERO_IS_ABSENT:
        value = attrgetter(path)
        if not value(config):
            config = put(config, path, value(absent))
    bind_address = config.bind_address or ANY_IPV4
    healthz, metrics = default_addresses(bind_address)
    return replace(
        config,
        bind_address=bind_address,
        healthz_bind_address=with_port(config.healthz_bind_address or healthz, HEALTHZ_PORT),
        metrics_bind_address=with_port(config.metrics_bind_address or metrics, METRICS_PORT),
    )


def default_addresses(bind_address: str) -> tuple[str, str]:
    """Where health and metrics are served; an unreadable address counts as IPv6, as upstream."""
    address = parse_address(bind_address)
    if address is not None and family_of(address) is Family.IPV4:
        return ANY_IPV4, "127.0.0.1"
    return "::", "::1"


def with_platform_defaults(
    config: KubeProxyConfiguration,
) -> tuple[KubeProxyConfiguration, tuple[Notice, ...]]:
    """The mode and what follows from it.

    No mode means nftables here, which upstream has announced as its default for 1.40.
    """
    notices: list[Notice] = []
    if not config.mode:
        notices += _notices_of_default_mode(config)
        config = replace(config, mode=Mode.NFTABLES.value)
    if config.mode == Mode.NFTABLES.value and not config.node_port_addresses:
        config = replace(config, node_port_addresses=("primary",))
    if not config.detect_local_mode:
        config = replace(config, detect_local_mode=LocalMode.CLUSTER_CIDR.value)
    return config, tuple(notices)


def _notices_of_default_mode(config: KubeProxyConfiguration) -> list[Notice]:
    """That the mode is the default one, and which settings are for another one."""
    notices = [
        Notice(
            Level.WARNING,
            "No proxy mode is configured: using nftables, to which Kubernetes moves in 1.40."
            " To stay with another mode, set 'mode' in the config file or --proxy-mode",
            {"mode": Mode.NFTABLES.value},
        )
    ]
    if config.iptables != IPTables():
        notices.append(
            Notice(
                Level.WARNING,
                "Settings of the iptables section have no effect in nftables mode:"
                " set 'mode: iptables', or move them to the nftables section",
                {"section": "iptables"},
            )
        )
    return notices
