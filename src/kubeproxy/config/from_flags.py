"""Flags to configuration fields: all of them without a config file, a few beside one."""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kubeproxy.config.defaults import ANY_IPV4, default_addresses, with_defaults
from kubeproxy.config.errors import ConfigError
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.hostport import with_port
from kubeproxy.config.types import KubeProxyConfiguration, Logging, Mode

T = TypeVar("T", bound=msgspec.Struct)

# The field that each flag stands for; none of these has an effect beside a config file.
FIELDS: Final[Mapping[str, str]] = {
    "bind-address": "bind_address",
    "bind-address-hard-fail": "bind_address_hard_fail",
    "cluster-cidr": "cluster_cidr",
    "config-sync-period": "config_sync_period",
    "conntrack-max-per-core": "conntrack.max_per_core",
    "conntrack-min": "conntrack.min",
    "conntrack-tcp-be-liberal": "conntrack.tcp_be_liberal",
    "conntrack-tcp-timeout-close-wait": "conntrack.tcp_close_wait_timeout",
    "conntrack-tcp-timeout-established": "conntrack.tcp_established_timeout",
    "conntrack-udp-timeout": "conntrack.udp_timeout",
    "conntrack-udp-timeout-stream": "conntrack.udp_stream_timeout",
    "detect-local-mode": "detect_local_mode",
    "feature-gates": "feature_gates",
    "iptables-localhost-nodeports": "iptables.localhost_node_ports",
    "iptables-masquerade-bit": "iptables.masquerade_bit",
    "ipvs-exclude-cidrs": "ipvs.exclude_cidrs",
    "ipvs-scheduler": "ipvs.scheduler",
    "ipvs-strict-arp": "ipvs.strict_arp",
    "ipvs-tcp-timeout": "ipvs.tcp_timeout",
    "ipvs-tcpfin-timeout": "ipvs.tcp_fin_timeout",
    "ipvs-udp-timeout": "ipvs.udp_timeout",
    "kube-api-burst": "client_connection.burst",
    "kube-api-content-type": "client_connection.content_type",
    "kube-api-qps": "client_connection.qps",
    "kubeconfig": "client_connection.kubeconfig",
    "nftables-affinity-size": "nftables.affinity_size",
    "nftables-balance": "nftables.balance",
    "nftables-endpoint-counters": "nftables.endpoint_counters",
    "nodeport-addresses": "node_port_addresses",
    "oom-score-adj": "oom_score_adj",
    "pod-bridge-interface": "detect_local.bridge_interface",
    "pod-interface-name-prefix": "detect_local.interface_name_prefix",
    "profiling": "enable_profiling",
    "proxy-mode": "mode",
    "rules-page": "rules_page",
    "show-hidden-metrics-for-version": "show_hidden_metrics_for_version",
    "status-page": "status_page",
    "status-socket": "status_socket",
    "traffic-metrics": "traffic.metrics",
    "traffic-series-limit": "traffic.series_limit",
}
# These have, on top of the file.
LOGGING_FIELDS: Final[Mapping[str, str]] = {
    "log-flush-frequency": "flush_frequency",
    "log-json-info-buffer-size": "options.json.info_buffer_size",
    "log-json-split-stream": "options.json.split_stream",
    "log-text-info-buffer-size": "options.text.info_buffer_size",
    "log-text-split-stream": "options.text.split_stream",
    "logging-format": "format",
    "v": "verbosity",
}

# Where a mode's own settings are; the flags of the iptables group serve nftables as well.
_SECTION: Final = {Mode.IPVS.value: "ipvs", Mode.IPTABLES.value: "iptables"}


def config_from_flags(parsed: Parsed) -> KubeProxyConfiguration:
    """The configuration that the command line alone describes."""
    config = with_defaults(KubeProxyConfiguration())
    for flag, path in FIELDS.items():
        if flag in parsed.given:
            config = _put(config, path, parsed.values[flag])
    config = _with_sync_periods(config, parsed)
    if parsed.value("masquerade-all", bool):
        section = "nftables" if _section(config) == "nftables" else "iptables"
        config = _put(config, f"{section}.masquerade_all", True)
    healthz, metrics = default_addresses(ANY_IPV4)
    return replace(
        config,
        bind_address=config.bind_address or ANY_IPV4,
        healthz_bind_address=_served_on("healthz", healthz, parsed),
        metrics_bind_address=_served_on("metrics", metrics, parsed),
        logging=with_logging_flags(config.logging, parsed),
    )


def _section(config: KubeProxyConfiguration) -> str:
    return _SECTION.get(config.mode, "nftables")


def _with_sync_periods(config: KubeProxyConfiguration, parsed: Parsed) -> KubeProxyConfiguration:
    """The periods of the active mode, from its flags even when they were not given."""
    section = _section(config)
    prefix = "ipvs" if section == "ipvs" else "iptables"
    for field in ("sync-period", "min-sync-period"):
        period = parsed.values[f"{prefix}-{field}"]
        config = _put(config, f"{section}.{field.replace('-', '_')}", period)
    return config


def _served_on(name: str, default: str, parsed: Parsed) -> str:
    """Where health or metrics are served; nowhere when the deprecated port flag is 0."""
    port = parsed.value(f"{name}-port", int)
    flag = f"{name}-bind-address"
    given = parsed.value(flag, str) if flag in parsed.given else ""
    return with_port(given or default, port) if port else ""


def with_logging_flags(logging: Logging, parsed: Parsed) -> Logging:
    """The logging section with the flags on top; patterns of a flag come before the file's."""
    for flag, path in LOGGING_FIELDS.items():
        if flag in parsed.given:
            logging = _put(logging, path, parsed.values[flag])
    return replace(logging, vmodule=(*parsed.value("vmodule", tuple), *logging.vmodule))


def with_hostname_override(
    config: KubeProxyConfiguration, parsed: Parsed
) -> KubeProxyConfiguration:
    """The configuration with the node's name from the flag, which wins over the file."""
    given = parsed.value("hostname-override", str)
    if not given:
        return config
    name = given.strip().lower()
    if not name:
        raise ConfigError("empty hostname-override is invalid")
    return replace(config, hostname_override=name)


def _put(struct: T, path: str, value: object) -> T:
    """The structure with another value at a path of attributes."""
    name, _, rest = path.partition(".")
    inner = _put(getattr(struct, name), rest, value) if rest else value
    return replace(struct, **{name: inner})
