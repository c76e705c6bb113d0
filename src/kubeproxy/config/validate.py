"""Validation: all errors together, in upstream's order and wording.

The paths are upstream's too. They name its internal types rather than the fields of the file,
but they are what operators find when they search.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.base import gotext
from kubeproxy.base.healing import parse_healing
from kubeproxy.base.inet import parse_address, parse_prefix
from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.defaults import Modes
from kubeproxy.config.errors import ConfigError, ValueTextError, invalid, joined, unsupported
from kubeproxy.config.gates import LOGGING_ALPHA_OPTIONS, LOGGING_BETA_OPTIONS, Gates
from kubeproxy.config.nodeports import KEYWORDS
from kubeproxy.config.types import (
    KIND,
    FastPathSettings,
    HealingSettings,
    KubeProxyConfiguration,
    LocalMode,
    Logging,
    VModuleItem,
)
from kubeproxy.config.values import Duration, of_seconds, split_host_port

_BALANCES: Final = ("random", "round-robin", "source-hash")
_TRAFFIC_METRICS: Final = ("frontend", "service", "none")
_READERS: Final = ("local", "all", "none")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_POSITIVE: Final = "must be greater than 0"
_MOST_PINS: Final = 16_777_216
_MOST_PACKETS: Final = 1_000_000
_MOST_RETRIES: Final = 10
_MOST_FAILURES: Final = 1000
_SECOND: Final = of_seconds(1)
_LARGEST: Final = 2**31 - 1

# Every mode does a full sync at least this often, so that changes cannot be held back longer.
_FULL_SYNC_PERIOD: Final = of_seconds(3600)


def validate(config: KubeProxyConfiguration, gates: Gates, modes: Modes) -> None:
    """Raise ConfigError, `failed validate: ...`, with everything that is wrong."""
    problems = [f"{KIND}.{problem}" for problem in _problems(config, gates, modes)]
    if problems:
        raise ConfigError(f"failed validate: {joined(problems)}")


def _problems(config: KubeProxyConfiguration, gates: Gates, modes: Modes) -> Iterator[str]:
    """Everything that is wrong but for the logging section, which has its own check."""
    bit = config.iptables.masquerade_bit
    yield from out_of_range("KubeProxyIPTablesConfiguration.MasqueradeBit", bit, 0, 31)
    if config.mode in modes:
        yield from modes[config.mode].problems(config)
    yield from negative(
        "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration",
        MaxPerCore=config.conntrack.max_per_core,
        Min=config.conntrack.min,
        TCPEstablishedTimeout=config.conntrack.tcp_established_timeout,
        TCPCloseWaitTimeout=config.conntrack.tcp_close_wait_timeout,
        UDPTimeout=config.conntrack.udp_timeout,
        UDPStreamTimeout=config.conntrack.udp_stream_timeout,
    )
    score = config.oom_score_adj
    yield from out_of_range("KubeProxyLinuxConfiguration.OOMScoreAdj", score, -1000, 1000)
    yield from _mode(config.mode, gates, modes)
    client = config.client_connection
    yield from negative("ClientConnection", Burst=client.burst)
    if client.burst == 0 and client.qps > 0:
        detail = "must be greater than 0 when qps is greater than 0"
        yield invalid("ClientConnection.Burst", client.burst, detail)
    yield from _periods(config)
    yield from _addresses(config)
    yield from _node_port_addresses(config.node_port_addresses)
    yield from _hidden_metrics(config.show_hidden_metrics_for_version)
    yield from _detect_local(config)
    # What upstream does not have.
    yield from _choice("Traffic.Metrics", config.traffic.metrics, _TRAFFIC_METRICS)
    yield from negative("Traffic", SeriesLimit=config.traffic.series_limit)
    path, nftables = "KubeProxyNFTablesConfiguration", config.nftables
    yield from _choice(f"{path}.Balance", nftables.balance, _BALANCES)
    yield from out_of_range(f"{path}.AffinitySize", nftables.affinity_size, 1, _MOST_PINS)
    yield from _healing(f"{path}.Healing", nftables.healing)
    yield from _fast_path(f"{path}.FastPath", nftables.fast_path)
    yield from _choice("RulesPage", config.rules_page, _READERS)
    yield from _choice("StatusPage", config.status_page, _READERS)
    if config.status_socket and not config.status_socket.startswith("/"):
        yield invalid("StatusSocket", config.status_socket, "must be an absolute path")


def _healing(path: str, healing: HealingSettings) -> Iterator[str]:
    try:
        parse_healing(healing.parts)
    except ValueError as error:
        yield invalid(f"{path}.Parts", healing.parts, str(error))
    yield from out_of_range(f"{path}.Retries", healing.retries, 1, _MOST_RETRIES)
    failures, percent = healing.ejection_failures, healing.max_ejected_percent
    yield from out_of_range(f"{path}.EjectionFailures", failures, 1, _MOST_FAILURES)
    yield from out_of_range(f"{path}.MaxEjectedPercent", percent, 0, 100)
    for name, value in {
        "GoneTimeout": healing.gone_timeout,
        "EjectionInterval": healing.ejection_interval,
        "EjectionTime": healing.ejection_time,
    }.items():
        if value < _SECOND:
            yield invalid(f"{path}.{name}", value, "must be at least 1s")
    if healing.max_ejection_time < healing.ejection_time:
        detail = "must be greater than or equal to ejectionTime"
        yield invalid(f"{path}.MaxEjectionTime", healing.max_ejection_time, detail)


def _fast_path(path: str, fast_path: FastPathSettings) -> Iterator[str]:
    yield from out_of_range(f"{path}.AfterPackets", fast_path.after_packets, 1, _MOST_PACKETS)
    if not all(fast_path.interfaces):
        detail = "must be names of network devices, or patterns such as eth*"
        yield invalid(f"{path}.Interfaces", fast_path.interfaces, detail)


def out_of_range(path: str, value: int, low: int, high: int) -> Iterator[str]:
    """The problem of a number that is too small or too large."""
    if not low <= value <= high:
        yield invalid(path, value, f"must be within the range [{low}, {high}]")


def _choice(path: str, value: str, choices: Sequence[str]) -> Iterator[str]:
    if value not in choices:
        yield unsupported(path, value, choices)


def negative(path: str, **values: int | Duration) -> Iterator[str]:
    """The problems of fields below the path that are less than zero."""
    for name, value in values.items():
        if (value.nanoseconds if isinstance(value, Duration) else value) < 0:
            yield invalid(f"{path}.{name}", value, _NOT_NEGATIVE)


def _mode(mode: str, gates: Gates, modes: Modes) -> Iterator[str]:
    def is_available(name: str) -> bool:
        return name in modes and (not modes[name].gate or gates.enabled(modes[name].gate))

    if mode and not is_available(mode):
        known, default = ", ".join(sorted(filter(is_available, modes))), next(iter(modes))
        detail = (
            f"must be {known} or blank"
            f" (blank means the best-available proxy [currently {default}])"
        )
        if mode == "kernelspace":
            detail += f"; it has always been for Windows nodes only: on Linux use {default}"
        yield invalid("Mode.ProxyMode", mode, detail)


def _periods(config: KubeProxyConfiguration) -> Iterator[str]:
    zero = Duration()
    if config.config_sync_period <= zero:
        yield invalid("ConfigSyncPeriod", config.config_sync_period, _POSITIVE)
    period, least = config.sync_period, config.min_sync_period
    if period <= zero:
        yield invalid("SyncPeriod", period, _POSITIVE)
    if least < zero:
        yield invalid("MinSyncPeriod", least, _NOT_NEGATIVE)
    if least > period:
        detail = f"must be greater than or equal to {KIND}.MinSyncPeriod"
        yield invalid("SyncPeriod", least, detail)
    if least > _FULL_SYNC_PERIOD:
        detail = f"must be at most {_FULL_SYNC_PERIOD}, the period of full syncs"
        yield invalid("MinSyncPeriod", least, detail)


def _addresses(config: KubeProxyConfiguration) -> Iterator[str]:
    if parse_address(config.bind_address) is None:
        detail = "not a valid textual representation of an IP address"
        yield invalid("BindAddress", config.bind_address, detail)
    if config.healthz_bind_address:
        yield from _host_port("HealthzBindAddress", config.healthz_bind_address)
    yield from _host_port("MetricsBindAddress", config.metrics_bind_address)


def _host_port(path: str, text: str) -> Iterator[str]:
    try:
        host, port = split_host_port(text)
    except ValueTextError:
        yield invalid(path, text, "must be IP:port")
        return
    if parse_address(host) is None:
        yield invalid(path, host, "must be a valid IP")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        yield invalid(path, port, "must be a valid port")


def _node_port_addresses(addresses: tuple[str, ...]) -> Iterator[str]:
    for index, address in enumerate(addresses):
        path = f"NodePortAddresses[{index}]"
        if address in KEYWORDS:
            if address in addresses[:index]:
                yield f"{path}: Duplicate value: {gotext.quote(address)}"
        elif parse_prefix(address) is None:
            detail = "must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'"
            yield invalid(path, address, detail)


def _hidden_metrics(version: str) -> Iterator[str]:
    """Only the previous minor release can be named."""
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    previous = f"{major}.{int(minor) - 1}"
    if version not in ("", previous):
        detail = (
            f"must be omitted or have the value '{previous}';"
            " only the previous minor version is allowed"
        )
        inner = invalid("showHiddenMetricsForVersion", version, detail)
        path = "ShowHiddenMetricsForVersion"
        yield invalid(path, version, f"invalid showHiddenMetricsForVersion: {inner}")


# --- local traffic ----------------------------------------------------------------------------

_PAIR: Final = (
    "must be a either a single CIDR or dual-stack pair of CIDRs"
    " (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]"
)
_BLOCK: Final = "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)"


def _detect_local(config: KubeProxyConfiguration) -> Iterator[str]:
    path = "DetectLocalConfiguration"
    detect = config.detect_local
    match config.detect_local_mode:
        case LocalMode.BRIDGE_INTERFACE.value:
            if not detect.bridge_interface:
                yield invalid(f"{path}.InterfaceName", "", "must not be empty")
        case LocalMode.INTERFACE_NAME_PREFIX.value:
            if not detect.interface_name_prefix:
                yield invalid(f"{path}.InterfacePrefix", "", "must not be empty")
        case LocalMode.CLUSTER_CIDR.value:
            yield from _cluster_cidrs(f"{path}.ClusterCIDRs", config.cluster_cidrs)
        case LocalMode.NODE_CIDR.value | "":
            pass
        case unknown:
            choices = (*(mode.value for mode in LocalMode), "")
            yield unsupported("DetectLocalMode", unknown, choices)


def _cluster_cidrs(path: str, cidrs: tuple[str, ...]) -> Iterator[str]:
    """None, one, or one of each family."""
    if len(cidrs) > 2:
        yield invalid(path, cidrs, _PAIR)
        return
    prefixes = [parse_prefix(cidr) for cidr in cidrs]
    for index, (cidr, prefix) in enumerate(zip(cidrs, prefixes, strict=True)):
        if prefix is None:
            is_padded = parse_prefix(cidr.strip()) is not None
            hint = "; remove the blanks around it" if is_padded else ""
            yield invalid(f"{path}[{index}]", cidr, _BLOCK + hint)
    families = {prefix.family for prefix in prefixes if prefix is not None}
    if len(cidrs) == 2 and len(families) == 1 and None not in prefixes:
        yield invalid(path, cidrs, _PAIR)


# --- logging -------------------------------------------------------------------------------------


def validate_logging(logging: Logging, gates: Gates) -> None:
    """Raise ConfigError, `initialize logging: ...`, with everything that is wrong.

    This is checked first, because everything later may log.
    """
    problems = list(_logging_problems(logging, gates))
    if problems:
        raise ConfigError(f"initialize logging: {joined(problems)}")


def _logging_problems(logging: Logging, gates: Gates) -> Iterator[str]:
    if logging.flush_period <= Duration():
        path = "logging.flushFrequency"
        yield invalid(path, logging.flush_frequency, "Must be greater than zero")
    if logging.format not in ("text", "json"):
        yield invalid("logging.format", logging.format, "Unsupported log format")
    elif logging.format == "json" and not gates.enabled(LOGGING_BETA_OPTIONS):
        yield (
            "logging.format: Forbidden: Log format json is disabled,"
            f" see {LOGGING_BETA_OPTIONS} feature"
        )
    yield from _verbosity("logging.verbosity", logging.verbosity)
    if logging.vmodule and logging.format != "text":
        yield "logging.vmodule: Forbidden: Only supported for text log format"
    for index, item in enumerate(logging.vmodule):
        yield from _vmodule(f"logging.vmodule[{index}]", item)
    if not gates.enabled(LOGGING_ALPHA_OPTIONS):
        detail = f"Forbidden: Feature {LOGGING_ALPHA_OPTIONS} is disabled"
        for name, routing in (("text", logging.options.text), ("json", logging.options.json)):
            if routing.split_stream:
                yield f"logging.options.{name}.splitStream: {detail}"
            if routing.info_buffer_size.value != 0:
                yield f"logging.options.{name}.infoBufferSize: {detail}"


def _verbosity(path: str, verbosity: int) -> Iterator[str]:
    if verbosity > _LARGEST:
        yield invalid(path, verbosity, f"Must be <= {_LARGEST}")


def _vmodule(path: str, item: VModuleItem) -> Iterator[str]:
    if not item.file_pattern:
        yield f"{path}: Required value: File pattern must not be empty"
    if any(sign in item.file_pattern for sign in "=,"):
        detail = "File pattern must not contain equal sign or comma"
        yield invalid(path, item.file_pattern, detail)
    yield from _verbosity(path, item.verbosity)
