"""The command line of the daemon: arguments in, values and their config fields out."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.config.defaults import ANY_IPV4, default_addresses, with_defaults
from kubeproxy.config.errors import ConfigError
from kubeproxy.config.flag_table import GROUPS
from kubeproxy.config.flagset import Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.types import KubeProxyConfiguration, Logging, Mode, put
from kubeproxy.config.values import with_port

COMMAND: Final = "kube-proxy"

FLAGS: Final[tuple[Flag, ...]] = tuple(
    msgspec.structs.replace(flag, group=group) for group, flags in GROUPS.items() for flag in flags
)

# Where a mode's own settings are; the flags of the iptables group serve nftables as well.
_SECTION: Final = {Mode.IPVS.value: "ipvs", Mode.IPTABLES.value: "iptables"}


def parse_flags(arguments: Sequence[str]) -> Parsed:
    """Read the daemon's command line, without the name of the program; raises UsageError."""
    parsed = parse(FLAGS, arguments)
    if not parsed.value("help", bool):
        refuse_positionals(COMMAND, parsed)
    return parsed


def usage_text() -> str:
    """How to call the daemon."""
    return usage(COMMAND, FLAGS)


# --- flags to config fields -------------------------------------------------------------------


def config_from_flags(parsed: Parsed) -> KubeProxyConfiguration:
    """The configuration that the command line alone describes."""
    config = _with_fields(with_defaults(KubeProxyConfiguration()), parsed)
    config = _with_sync_periods(config, parsed)
    if parsed.value("masquerade-all", bool):
        section = "nftables" if _section(config) == "nftables" else "iptables"
        config = put(config, f"{section}.masquerade_all", True)
    healthz, metrics = default_addresses(ANY_IPV4)
    return replace(
        config,
        bind_address=config.bind_address or ANY_IPV4,
        healthz_bind_address=_served_on("healthz", healthz, parsed),
        metrics_bind_address=_served_on("metrics", metrics, parsed),
        logging=_with_vmodule(config.logging, parsed),
    )


def _with_fields(
    config: KubeProxyConfiguration, parsed: Parsed, section: str = ""
) -> KubeProxyConfiguration:
    """The configuration with the fields of the flags that were given."""
    for flag in FLAGS:
        if flag.field.startswith(section) and flag.field and flag.name in parsed.given:
            config = put(config, flag.field, parsed.values[flag.name])
    return config


def _section(config: KubeProxyConfiguration) -> str:
    return _SECTION.get(config.mode, "nftables")


def _with_sync_periods(config: KubeProxyConfiguration, parsed: Parsed) -> KubeProxyConfiguration:
    """The periods of the active mode, from its flags even when they were not given."""
    section = _section(config)
    prefix = "ipvs" if section == "ipvs" else "iptables"
    for field in ("sync-period", "min-sync-period"):
        period = parsed.values[f"{prefix}-{field}"]
        config = put(config, f"{section}.{field.replace('-', '_')}", period)
    return config


def _served_on(name: str, default: str, parsed: Parsed) -> str:
    """Where health or metrics are served; nowhere when the deprecated port flag is 0."""
    port = parsed.value(f"{name}-port", int)
    flag = f"{name}-bind-address"
    given = parsed.value(flag, str) if flag in parsed.given else ""
    return with_port(given or default, port) if port else ""


def with_logging_flags(config: KubeProxyConfiguration, parsed: Parsed) -> KubeProxyConfiguration:
    """The configuration of a file with the logging flags on top."""
    config = _with_fields(config, parsed, "logging.")
    return replace(config, logging=_with_vmodule(config.logging, parsed))


def _with_vmodule(logging: Logging, parsed: Parsed) -> Logging:
    """The logging section with the flag's patterns before those of the file."""
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
