"""The command line of the daemon: its flags, and the config fields that they stand for.

Each entry is `name: kind default` or `name = field`, and its help; a kind is one of `kinds`. A
flag that stands for a config field has the default of the field, and no effect beside `--config`,
but for the logging flags. `-> name` is the flag that replaces a deprecated one.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from kubeproxy.base import gotext
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION, described
from kubeproxy.config import kinds
from kubeproxy.config.defaults import ANY_IPV4, LOOPBACK_IPV4
from kubeproxy.config.errors import ConfigError
from kubeproxy.config.flagset import Flag, Parsed, parse, refuse_positionals, usage
from kubeproxy.config.gates import GATE_NAMES
from kubeproxy.config.kinds import KIND_OF_TYPE, STRING, FlagKind
from kubeproxy.config.removed import REJECTED_FLAGS
from kubeproxy.config.types import SECTIONS, KubeProxyConfiguration, put
from kubeproxy.config.values import with_port

COMMAND: Final = "kube-proxy"

_TABLE: Final = """
[General]
config: string
    Read the configuration from this YAML or JSON file. Flags that stand for a field of the file
    then have no effect, but for --hostname-override and the logging flags.
write-config-to: string
    Write the effective configuration to this file, exit.
cleanup: bool false
    Remove what any proxy mode left in the kernel, and exit.
init-only: bool false
    Do what needs full privileges, and exit; later runs then need CAP_NET_ADMIN only.
version: version false
    Print our version and the Kubernetes version whose behaviour is followed, and exit; =raw prints
    more, =vX.Y.Z-suffix reports that Kubernetes version instead.
help: bool false
    Show this text.
feature-gates = feature_gates
    Switch features on and off: Name=true,Other=false. Known are GATE_NAMES.
hostname-override: string
    The name of this node, if it is not the name of the host. Wins over the config file.
bind-address: ip 0.0.0.0 = bind_address
    The primary IP address of this node, instead of the one in its Node object. In spite of the
    name nothing is bound to it.
oom-score-adj = oom_score_adj
    The oom_score_adj of the process, from -1000 to 1000.
config-sync-period = config_sync_period
    How often all objects of the API server are looked at again; above 0.

[API server]
kubeconfig = client_connection.kubeconfig
    The file with the address of the API server and our credentials. Without it and without
    --master, the service account of the pod is used.
master: string
    The address of the API server; wins over the kubeconfig.
kube-api-content-type = client_connection.content_type
    The content type of requests to the API server.
kube-api-qps = client_connection.qps
    Requests a second to the API server; below 0 no limit.
kube-api-burst = client_connection.burst
    Requests to the API server that may exceed the rate.

[Health and metrics]
healthz-bind-address: ipport 0.0.0.0:10256
    The address, with or without a port, on which health is served.
healthz-port: int32 10256 -> healthz-bind-address
    The port on which health is served; 0 for none.
metrics-bind-address: ipport 127.0.0.1:10249
    The address, with or without a port, on which metrics are served.
metrics-port: int32 10249 -> metrics-bind-address
    The port on which metrics are served.
bind-address-hard-fail = bind_address_hard_fail
    End the process when the health or the metrics address cannot be bound.
profiling = enable_profiling
    Serve profiles and debug flags beside the metrics.
show-hidden-metrics-for-version = show_hidden_metrics_for_version
    Also show the metrics that this release hides; only the previous minor release can be named,
    for instance 1.37.

[Proxying]
proxy-mode = mode
    nftables (the default), iptables, ipvs or userspace.
masquerade-all: bool false
    Masquerade all traffic to cluster IPs, which some network plugins need.
detect-local-mode = detect_local_mode
    How traffic of local pods is recognised: ClusterCIDR (the default), NodeCIDR,
    BridgeInterface or InterfaceNamePrefix.
cluster-cidr = cluster_cidr
    The addresses of the cluster's pods: one CIDR, or one of each family with a comma between. Used
    in mode ClusterCIDR.
pod-bridge-interface = detect_local.bridge_interface
    The bridge of the pods, for BridgeInterface.
pod-interface-name-prefix = detect_local.interface_name_prefix
    How the names of the pods' interfaces begin, for InterfaceNamePrefix.
nodeport-addresses = node_port_addresses
    The node's addresses that accept NodePort connections: CIDRs and the keywords primary,
    localhost and all. Empty means primary in nftables mode, all in the others.

[iptables]
iptables-masquerade-bit = iptables.masquerade_bit
    The bit (0 to 31) of the packet mark that asks for masquerading, in iptables and ipvs mode.
iptables-localhost-nodeports = iptables.localhost_node_ports
    Accept NodePort connections to 127.0.0.0/8 in iptables mode.
iptables-sync-period: duration 30s
    How soon a failed sync is tried again, and how often periodic checks are done; above 0. Used in
    every mode but ipvs.
iptables-min-sync-period: duration 1s
    The least time between two syncs; 0 syncs on every change at once. Used in every mode but ipvs.

[ipvs]
ipvs-sync-period: duration 30s
    How soon a failed sync is tried again, and how often periodic checks are done; above 0.
ipvs-min-sync-period: duration 1s
    The least time between two syncs; 0 syncs on every change at once.
ipvs-scheduler = ipvs.scheduler
    The scheduler of virtual servers; rr if empty.
ipvs-exclude-cidrs = ipvs.exclude_cidrs
    CIDRs whose virtual servers are left alone.
ipvs-strict-arp = ipvs.strict_arp
    Set arp_ignore to 1 and arp_announce to 2.
ipvs-tcp-timeout = ipvs.tcp_timeout
    Of idle TCP connections; 0 leaves it as it is.
ipvs-tcpfin-timeout = ipvs.tcp_fin_timeout
    Of TCP connections after a FIN; 0 likewise.
ipvs-udp-timeout = ipvs.udp_timeout
    Of UDP packets; 0 leaves it as it is.

[userspace]
udp-timeout = udp_idle_timeout
    How long userspace mode knows a client of UDP that sends and gets nothing; above 0.
proxy-port-range = port_range
    The ports that listeners of userspace mode may have: FIRST-LAST, FIRST+MORE or one port; empty
    for any.
userspace-workers = userspace.workers
    How many processes relay in userspace mode, for each IP family.
userspace-port-map = userspace.port_map
    Where userspace mode cannot write rules: places on this machine that lead to Services, such as
    127.0.0.1:8080=default/web:80, with a comma between.

[Connection tracking]
conntrack-max-per-core = conntrack.max_per_core
    Connections to track for each CPU; 0 leaves the limit and ignores --conntrack-min.
conntrack-min = conntrack.min
    The least number of connections to track.
conntrack-tcp-timeout-established = conntrack.tcp_established_timeout
    Timeout of idle established TCP connections; 0 leaves it as it is.
conntrack-tcp-timeout-close-wait = conntrack.tcp_close_wait_timeout
    Timeout of TCP connections in CLOSE_WAIT; 0 leaves it as it is.
conntrack-tcp-be-liberal = conntrack.tcp_be_liberal
    Set nf_conntrack_tcp_be_liberal to 1, so that odd TCP packets count as valid.
conntrack-udp-timeout = conntrack.udp_timeout
    Timeout of UDP connections that saw no reply; 0 leaves it as it is.
conntrack-udp-timeout-stream = conntrack.udp_stream_timeout
    Timeout of UDP connections that saw replies; 0 leaves it as it is.

[Logging]
v: level 0 = logging.verbosity
    The verbosity of the log.
vmodule: vmodule = logging.vmodule
    The verbosity of single source files, by patterns on their names without .py; in text format
    only.
logging-format = logging.format
    The layout of log lines: text or json.
log-flush-frequency = logging.flush_frequency
    How long a buffered log line may wait; above 0.
log-text-split-stream = logging.options.text.split_stream
    In text format: Write informational lines to standard output and all others to standard error.
    Needs the feature gate LoggingAlphaOptions.
log-text-info-buffer-size = logging.options.text.info_buffer_size
    In text format: With split streams, how many bytes of informational lines may wait to be
    written together; 0 for none. Suffixes are k, M, G and Ki, Mi, Gi. Needs the feature gate
    LoggingAlphaOptions.
log-json-split-stream = logging.options.json.split_stream
    In JSON format: Write informational lines to standard output and all others to standard error.
    Needs the feature gate LoggingAlphaOptions.
log-json-info-buffer-size = logging.options.json.info_buffer_size
    In JSON format: With split streams, how many bytes of informational lines may wait to be
    written together; 0 for none. Suffixes are k, M, G and Ki, Mi, Gi. Needs the feature gate
    LoggingAlphaOptions.

[kubeproxy]
manifests: strings
    Files and directories of manifests to use instead of an API server. May be repeated; also
    counts beside --config.
dry-run: bool false
    Compile and report, but never write to the kernel. Also counts beside --config.
nftables-balance = nftables.balance
    How nftables mode chooses an endpoint: random, round-robin or source-hash. The Service's
    annotation kubeproxy.io/balance wins over it.
nftables-healing = nftables.healing.parts
    What nftables mode does for connections to endpoints that fail: none, all, or a list of
    retryRefused, retryUnanswered, resetGone and eject. The Service's annotation
    kubeproxy.io/healing wins over it.
nftables-fast-path = nftables.fast_path.enabled
    Have nftables mode take established connections through Services past the rules, by a
    flowtable of the kernel.
nftables-endpoint-counters = nftables.endpoint_counters
    Count connections per endpoint as well, which costs kernel memory for each of them.
nftables-affinity-size = nftables.affinity_size
    How many clients of services with session affinity nftables mode remembers one by one; further
    ones share 1024 places for each service.
traffic-metrics = traffic.metrics
    How fine the metrics of connections are: frontend, service or none.
traffic-series-limit = traffic.series_limit
    How many series each metric of connections may have; 0 is no limit.
rules-page = rules_page
    Who may read the rules on the metrics server: local (root on this host), all or none.
status-page = status_page
    Who may read the status page on the metrics server: local (root on this host), all or none.
status-socket = status_socket
    The Unix socket on which root and our own user may ask this daemon; empty: none.
"""

_ENTRY: Final = re.compile(
    r"^\[(?P<group>.+)\]$"
    r"|^(?P<name>[\w-]+)(?:: (?P<kind>\w+)(?: (?P<default>[\w.:]+))?)?"
    r"(?: = (?P<field>\S+))?(?: -> (?P<instead>\S+))?\n(?P<help>(?:    .+\n)+)",
    re.MULTILINE,
)
_DEPRECATED: Final = (
    "This flag is deprecated and will be removed in a future release. Please use --{} instead."
)


def _flags(table: str) -> Iterator[Flag]:
    defaults = KubeProxyConfiguration()
    group = ""
    for entry in _ENTRY.finditer(table):
        if entry["group"]:
            group = entry["group"]
            continue
        name, field, instead = entry["name"], entry["field"] or "", entry["instead"]
        if entry["kind"]:
            kind: FlagKind = getattr(kinds, entry["kind"].upper())
            default = kind.parse(entry["default"] or "")
        else:
            default = attrgetter(field)(defaults)
            kind = KIND_OF_TYPE[type(default)]
        yield Flag(
            name,
            kind,
            default,
            " ".join(entry["help"].split()).replace("GATE_NAMES", ", ".join(GATE_NAMES)),
            group=group,
            shorthand={"help": "h", "v": "v"}.get(name, ""),
            field=field,
            deprecated=_DEPRECATED.format(instead) if instead else "",
        )


FLAGS: Final = (
    *_flags(_TABLE),
    *(Flag(name, STRING, "", "", refused=why) for name, why in REJECTED_FLAGS.items()),
)


def parse_flags(arguments: Sequence[str]) -> Parsed:
    """Read the daemon's command line, without the name of the program; raises UsageError."""
    parsed = parse(FLAGS, arguments)
    if not parsed.value("help", bool):
        refuse_positionals(COMMAND, parsed)
    return parsed


def usage_text(width: int, before: Sequence[str]) -> str:
    """How to call the daemon; what else the program does stands before its flags."""
    return usage(COMMAND, FLAGS, width, before)


# --- flags to config fields -------------------------------------------------------------------


def config_from_flags(parsed: Parsed) -> KubeProxyConfiguration:
    """The configuration that the command line alone describes."""
    config = _with_fields(KubeProxyConfiguration(), parsed)
    config = _with_sync_periods(config, parsed)
    if parsed.value("masquerade-all", bool):
        config = put(config, f"{SECTIONS[config.section]}.masquerade_all", True)
    return replace(
        config,
        bind_address=config.bind_address or ANY_IPV4,
        healthz_bind_address=_served_on("healthz", ANY_IPV4, parsed),
        metrics_bind_address=_served_on("metrics", LOOPBACK_IPV4, parsed),
    )


def _with_fields(
    config: KubeProxyConfiguration, parsed: Parsed, section: str = ""
) -> KubeProxyConfiguration:
    """The configuration with the fields of the flags that were given."""
    for flag in FLAGS:
        if flag.field.startswith(section) and flag.field and flag.name in parsed.given:
            config = put(config, flag.field, parsed.values[flag.name])
    return config


def _with_sync_periods(config: KubeProxyConfiguration, parsed: Parsed) -> KubeProxyConfiguration:
    """The periods of the active mode, from its flags even when they were not given.

    A mode without such flags has those of iptables.
    """
    for name in ("sync-period", "min-sync-period"):
        shared = parsed.values[f"iptables-{name}"]
        period = parsed.values.get(f"{config.section}-{name}", shared)
        config = put(config, f"{config.section}.{name.replace('-', '_')}", period)
    return config


def _served_on(name: str, default: str, parsed: Parsed) -> str:
    """Where health or metrics are served; nowhere when the deprecated port flag is 0."""
    port = parsed.value(f"{name}-port", int)
    flag = f"{name}-bind-address"
    given = parsed.value(flag, str) if flag in parsed.given else ""
    return with_port(given or default, port) if port else ""


def with_logging_flags(config: KubeProxyConfiguration, parsed: Parsed) -> KubeProxyConfiguration:
    """The configuration of a file with the logging flags on top, and patterns of both."""
    patterns = (*parsed.value("vmodule", tuple), *config.logging.vmodule)
    return put(_with_fields(config, parsed, "logging."), "logging.vmodule", patterns)


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


# --- --version --------------------------------------------------------------------------------
# Support tools look for "Kubernetes vX.Y.Z" and for GitVersion: that is the release whose
# behaviour we follow. Our own version and commit stand before it.


def reported_version(value: str) -> str:
    """The Kubernetes version that this process reports, given the value of the flag."""
    return value if value.startswith("v") else KUBERNETES_VERSION


def version_text(value: str, machine: str, commit: str) -> str:
    """What the flag asks to print, which is "raw" or not."""
    if value != "raw":
        return described(commit)
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    fields = {
        "Program": f"kubeproxy {VERSION}",
        "GitCommit": commit,
        "Major": major,
        "Minor": minor,
        "GitVersion": KUBERNETES_VERSION,
        "Compiler": sys.implementation.name,
        "CompilerVersion": ".".join(map(str, sys.version_info[:3])),
        "Platform": f"{sys.platform}/{machine}",
    }
    return f"version.Info{{{', '.join(f'{k}:{gotext.quote(v)}' for k, v in fields.items())}}}"
