"""All flags of kube-proxy by topic: upstream's, and our own.

A flag that stands for a config field has its default, and no effect beside `--config`, but for the
fields of `logging`.
"""

from operator import attrgetter
from typing import Final

from kubeproxy.config.flagset import HELP, Flag
from kubeproxy.config.gates import GATE_NAMES
from kubeproxy.config.kinds import (
    BOOL,
    DURATION,
    INT32,
    IP,
    IP_PORT,
    KIND_OF_TYPE,
    LEVEL,
    STRING,
    STRINGS,
    VMODULE,
)
from kubeproxy.config.removed import REJECTED_FLAGS
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.values import of_seconds
from kubeproxy.config.version_flag import VERSION_KIND

_DEFAULTS: Final = KubeProxyConfiguration()


def _field(name: str, path: str, text: str) -> Flag:
    """The flag of a config field, with its default and kind."""
    default = attrgetter(path)(_DEFAULTS)
    return Flag(name, KIND_OF_TYPE[type(default)], default, text, field=path)


_SYNC_PERIOD: Final = (
    "How soon a failed sync is tried again, and how often periodic checks are done; above 0."
)
_MIN_SYNC_PERIOD: Final = "The least time between two syncs; 0 syncs on every change at once."
_BUFFER: Final = (
    "With split streams, how many bytes of informational lines may wait to be written together;"
    " 0 for none. Suffixes are k, M, G and Ki, Mi, Gi. Needs the feature gate LoggingAlphaOptions."
)
_SPLIT: Final = (
    "Write informational lines to standard output and all others to standard error."
    " Needs the feature gate LoggingAlphaOptions."
)

_GENERAL: Final = (
    Flag(
        "config",
        STRING,
        "",
        "Read the configuration from this YAML or JSON file. Flags that stand for a field of the"
        " file then have no effect, but for --hostname-override and the logging flags.",
    ),
    Flag("write-config-to", STRING, "", "Write the effective configuration to this file, exit."),
    Flag("cleanup", BOOL, False, "Remove what any proxy mode left in the kernel, and exit."),
    Flag(
        "init-only",
        BOOL,
        False,
        "Do what needs full privileges, and exit; later runs then need CAP_NET_ADMIN only.",
    ),
    Flag(
        "version",
        VERSION_KIND,
        "false",
        "Print the Kubernetes version whose behaviour is followed, and exit; =raw prints more,"
        " =vX.Y.Z-suffix reports that version instead.",
    ),
    HELP,
    _field(
        "feature-gates",
        "feature_gates",
        f"Switch features on and off: Name=true,Other=false. Known are {', '.join(GATE_NAMES)}.",
    ),
    Flag(
        "hostname-override",
        STRING,
        "",
        "The name of this node, if it is not the name of the host. Wins over the config file.",
    ),
    Flag(
        "bind-address",
        IP,
        "0.0.0.0",  # noqa: S104  # upstream's default, and nothing is bound to it
        "The primary IP address of this node, instead of the one in its Node object. In spite of"
        " the name nothing is bound to it.",
        field="bind_address",
    ),
    _field(
        "oom-score-adj", "oom_score_adj", "The oom_score_adj of the process, from -1000 to 1000."
    ),
    _field(
        "config-sync-period",
        "config_sync_period",
        "How often all objects of the API server are looked at again; above 0.",
    ),
)

_API: Final = (
    _field(
        "kubeconfig",
        "client_connection.kubeconfig",
        "The file that says where the API server is and who we are. Without it and without"
        " --master, the service account of the pod is used.",
    ),
    Flag("master", STRING, "", "The address of the API server; wins over the kubeconfig."),
    _field(
        "kube-api-content-type",
        "client_connection.content_type",
        "The content type of requests to the API server.",
    ),
    _field(
        "kube-api-qps",
        "client_connection.qps",
        "Requests a second to the API server; below 0 no limit.",
    ),
    _field(
        "kube-api-burst",
        "client_connection.burst",
        "Requests to the API server that may exceed the rate.",
    ),
)

_SERVING: Final = (
    Flag(
        "healthz-bind-address",
        IP_PORT,
        "0.0.0.0:10256",
        "The address, with or without a port, on which health is served.",
    ),
    Flag(
        "healthz-port",
        INT32,
        10256,
        "The port on which health is served; 0 for none.",
        deprecated="This flag is deprecated and will be removed in a future release."
        " Please use --healthz-bind-address instead.",
    ),
    Flag(
        "metrics-bind-address",
        IP_PORT,
        "127.0.0.1:10249",
        "The address, with or without a port, on which metrics are served.",
    ),
    Flag(
        "metrics-port",
        INT32,
        10249,
        "The port on which metrics are served.",
        deprecated="This flag is deprecated and will be removed in a future release."
        " Please use --metrics-bind-address instead.",
    ),
    _field(
        "bind-address-hard-fail",
        "bind_address_hard_fail",
        "End the process when the health or the metrics address cannot be bound.",
    ),
    _field("profiling", "enable_profiling", "Serve profiles and debug flags beside the metrics."),
    _field(
        "show-hidden-metrics-for-version",
        "show_hidden_metrics_for_version",
        "Also show the metrics that this release hides; only the previous minor release can be"
        " named, for instance 1.37.",
    ),
)

_PROXYING: Final = (
    _field("proxy-mode", "mode", "nftables (used when nothing is said), iptables or ipvs."),
    Flag(
        "masquerade-all",
        BOOL,
        False,
        "Masquerade all traffic to cluster IPs, which some network plugins need.",
    ),
    _field(
        "detect-local-mode",
        "detect_local_mode",
        "How traffic of local pods is recognised: ClusterCIDR (used when nothing is said),"
        " NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
    ),
    _field(
        "cluster-cidr",
        "cluster_cidr",
        "The addresses of the cluster's pods: one CIDR, or one of each family with a comma"
        " between. Used in mode ClusterCIDR.",
    ),
    _field(
        "pod-bridge-interface",
        "detect_local.bridge_interface",
        "The bridge of the pods, for BridgeInterface.",
    ),
    _field(
        "pod-interface-name-prefix",
        "detect_local.interface_name_prefix",
        "How the names of the pods' interfaces begin, for InterfaceNamePrefix.",
    ),
    _field(
        "nodeport-addresses",
        "node_port_addresses",
        "The node's addresses that accept NodePort connections: CIDRs and the keywords primary,"
        " localhost and all. Empty means primary in nftables mode, all in the others.",
    ),
)

_IPTABLES: Final = (
    _field(
        "iptables-masquerade-bit",
        "iptables.masquerade_bit",
        "The bit (0 to 31) of the packet mark that asks for masquerading, in iptables and ipvs"
        " mode.",
    ),
    _field(
        "iptables-localhost-nodeports",
        "iptables.localhost_node_ports",
        "Accept NodePort connections to 127.0.0.0/8 in iptables mode.",
    ),
    Flag(
        "iptables-sync-period",
        DURATION,
        of_seconds(30),
        f"{_SYNC_PERIOD} Used in every mode but ipvs.",
    ),
    Flag(
        "iptables-min-sync-period",
        DURATION,
        of_seconds(1),
        f"{_MIN_SYNC_PERIOD} Used in every mode but ipvs.",
    ),
)

_IPVS: Final = (
    Flag("ipvs-sync-period", DURATION, of_seconds(30), _SYNC_PERIOD),
    Flag("ipvs-min-sync-period", DURATION, of_seconds(1), _MIN_SYNC_PERIOD),
    _field("ipvs-scheduler", "ipvs.scheduler", "The scheduler of virtual servers; rr if empty."),
    _field(
        "ipvs-exclude-cidrs", "ipvs.exclude_cidrs", "CIDRs whose virtual servers are left alone."
    ),
    _field("ipvs-strict-arp", "ipvs.strict_arp", "Set arp_ignore to 1 and arp_announce to 2."),
    _field(
        "ipvs-tcp-timeout", "ipvs.tcp_timeout", "Of idle TCP connections; 0 leaves it as it is."
    ),
    _field(
        "ipvs-tcpfin-timeout",
        "ipvs.tcp_fin_timeout",
        "Of TCP connections after a FIN; 0 likewise.",
    ),
    _field("ipvs-udp-timeout", "ipvs.udp_timeout", "Of UDP packets; 0 leaves it as it is."),
)

_CONNTRACK: Final = (
    _field(
        "conntrack-max-per-core",
        "conntrack.max_per_core",
        "Connections to track for each CPU; 0 leaves the limit and ignores --conntrack-min.",
    ),
    _field("conntrack-min", "conntrack.min", "The least number of connections to track."),
    _field(
        "conntrack-tcp-timeout-established",
        "conntrack.tcp_established_timeout",
        "Timeout of idle established TCP connections; 0 leaves it as it is.",
    ),
    _field(
        "conntrack-tcp-timeout-close-wait",
        "conntrack.tcp_close_wait_timeout",
        "Timeout of TCP connections in CLOSE_WAIT; 0 leaves it as it is.",
    ),
    _field(
        "conntrack-tcp-be-liberal",
        "conntrack.tcp_be_liberal",
        "Set nf_conntrack_tcp_be_liberal to 1, so that odd TCP packets count as valid.",
    ),
    _field(
        "conntrack-udp-timeout",
        "conntrack.udp_timeout",
        "Timeout of UDP connections that saw no reply; 0 leaves it as it is.",
    ),
    _field(
        "conntrack-udp-timeout-stream",
        "conntrack.udp_stream_timeout",
        "Timeout of UDP connections that saw replies; 0 leaves it as it is.",
    ),
)

_LOGGING: Final = (
    Flag("v", LEVEL, 0, "The verbosity of the log.", shorthand="v", field="logging.verbosity"),
    Flag(
        "vmodule",
        VMODULE,
        (),
        "The verbosity of single source files, by patterns on their names without .py;"
        " in text format only.",
    ),
    _field("logging-format", "logging.format", "The layout of log lines: text or json."),
    _field(
        "log-flush-frequency",
        "logging.flush_frequency",
        "How long a buffered log line may wait; above 0.",
    ),
    _field(
        "log-text-split-stream", "logging.options.text.split_stream", f"In text format: {_SPLIT}"
    ),
    _field(
        "log-text-info-buffer-size",
        "logging.options.text.info_buffer_size",
        f"In text format: {_BUFFER}",
    ),
    _field(
        "log-json-split-stream", "logging.options.json.split_stream", f"In JSON format: {_SPLIT}"
    ),
    _field(
        "log-json-info-buffer-size",
        "logging.options.json.info_buffer_size",
        f"In JSON format: {_BUFFER}",
    ),
)

_OWN: Final = (
    Flag(
        "manifests",
        STRINGS,
        (),
        "Files and directories of manifests to use instead of an API server. May be repeated;"
        " also counts beside --config.",
    ),
    Flag(
        "dry-run",
        BOOL,
        False,
        "Compile and report, but never write to the kernel. Also counts beside --config.",
    ),
    _field(
        "nftables-balance",
        "nftables.balance",
        "How nftables mode chooses an endpoint: random, round-robin or source-hash. The Service's"
        " annotation kubeproxy.io/balance wins over it.",
    ),
    _field(
        "nftables-endpoint-counters",
        "nftables.endpoint_counters",
        "Count connections per endpoint as well, which costs kernel memory for each of them.",
    ),
    _field(
        "nftables-affinity-size",
        "nftables.affinity_size",
        "How many clients of services with session affinity nftables mode remembers one by one;"
        " further ones share 1024 places for each service.",
    ),
    _field(
        "traffic-metrics",
        "traffic.metrics",
        "How fine the metrics of connections are: frontend, service or none.",
    ),
    _field(
        "traffic-series-limit",
        "traffic.series_limit",
        "How many series each metric of connections may have; 0 is no limit.",
    ),
    _field(
        "rules-page",
        "rules_page",
        "Who may read the rules on the metrics server: local (root on this host), all or none.",
    ),
    _field(
        "status-page",
        "status_page",
        "Who may read the status page on the metrics server: local (root on this host), all"
        " or none.",
    ),
    _field(
        "status-socket",
        "status_socket",
        "The Unix socket on which root and our own user may ask this daemon; empty: none.",
    ),
)

GROUPS: Final = {
    "General": _GENERAL,
    "API server": _API,
    "Health and metrics": _SERVING,
    "Proxying": _PROXYING,
    "iptables": _IPTABLES,
    "ipvs": _IPVS,
    "Connection tracking": _CONNTRACK,
    "Logging": _LOGGING,
    "kubeproxy": _OWN,
    "": tuple(Flag(name, STRING, "", "", refused=why) for name, why in REJECTED_FLAGS.items()),
}
