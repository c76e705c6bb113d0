"""All flags of kube-proxy by topic: upstream's, and two of our own.

A flag that stands for a config field has no effect beside `--config`; `from_flags` says which
field each one stands for, and which flags count in any case.
"""

from typing import Final

from kubeproxy.config.duration import Duration, of_seconds
from kubeproxy.config.flagset import HELP, Flag
from kubeproxy.config.gates import GATE_NAMES
from kubeproxy.config.kinds import (
    BOOL,
    DURATION,
    FLOAT32,
    INT32,
    IP,
    IP_PORT,
    LEVEL,
    QUANTITY,
    STRING,
    STRINGS,
    SWITCHES,
    VMODULE,
)
from kubeproxy.config.quantity import Quantity
from kubeproxy.config.refused_flags import REFUSED
from kubeproxy.config.version_flag import VERSION_KIND

_ZERO: Final = Duration()
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
    Flag(
        "feature-gates",
        SWITCHES,
        {},
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
    ),
    Flag("oom-score-adj", INT32, -999, "The oom_score_adj of the process, from -1000 to 1000."),
    Flag(
        "config-sync-period",
        DURATION,
        of_seconds(15 * 60),
        "How often all objects of the API server are looked at again; above 0.",
    ),
)

_API: Final = (
    Flag(
        "kubeconfig",
        STRING,
        "",
        "The file that says where the API server is and who we are. Without it and without"
        " --master, the service account of the pod is used.",
    ),
    Flag("master", STRING, "", "The address of the API server; wins over the kubeconfig."),
    Flag(
        "kube-api-content-type",
        STRING,
        "application/vnd.kubernetes.protobuf",
        "The content type of requests to the API server.",
    ),
    Flag("kube-api-qps", FLOAT32, 5.0, "Requests a second to the API server; below 0 no limit."),
    Flag("kube-api-burst", INT32, 10, "Requests to the API server that may exceed the rate."),
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
    Flag(
        "bind-address-hard-fail",
        BOOL,
        False,
        "End the process when the health or the metrics address cannot be bound.",
    ),
    Flag("profiling", BOOL, False, "Serve profiles and debug flags beside the metrics."),
    Flag(
        "show-hidden-metrics-for-version",
        STRING,
        "",
        "Also show the metrics that this release hides; only the previous minor release can be"
        " named, for instance 1.37.",
    ),
)

_PROXYING: Final = (
    Flag("proxy-mode", STRING, "", "nftables (used when nothing is said), iptables or ipvs."),
    Flag(
        "masquerade-all",
        BOOL,
        False,
        "Masquerade all traffic to cluster IPs, which some network plugins need.",
    ),
    Flag(
        "detect-local-mode",
        STRING,
        "",
        "How traffic of local pods is recognised: ClusterCIDR (used when nothing is said),"
        " NodeCIDR, BridgeInterface or InterfaceNamePrefix.",
    ),
    Flag(
        "cluster-cidr",
        STRING,
        "",
        "The addresses of the cluster's pods: one CIDR, or one of each family with a comma"
        " between. Used in mode ClusterCIDR.",
    ),
    Flag("pod-bridge-interface", STRING, "", "The bridge of the pods, for BridgeInterface."),
    Flag(
        "pod-interface-name-prefix",
        STRING,
        "",
        "How the names of the pods' interfaces begin, for InterfaceNamePrefix.",
    ),
    Flag(
        "nodeport-addresses",
        STRINGS,
        (),
        "The node's addresses that accept NodePort connections: CIDRs and the keywords primary,"
        " localhost and all. Empty means primary in nftables mode, all in the others.",
    ),
)

_IPTABLES: Final = (
    Flag(
        "iptables-masquerade-bit",
        INT32,
        14,
        "The bit (0 to 31) of the packet mark that asks for masquerading, in iptables and ipvs"
        " mode.",
    ),
    Flag(
        "iptables-localhost-nodeports",
        BOOL,
        True,
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
    Flag("ipvs-scheduler", STRING, "", "The scheduler of virtual servers; rr if empty."),
    Flag("ipvs-exclude-cidrs", STRINGS, (), "CIDRs whose virtual servers are left alone."),
    Flag("ipvs-strict-arp", BOOL, False, "Set arp_ignore to 1 and arp_announce to 2."),
    Flag("ipvs-tcp-timeout", DURATION, _ZERO, "Of idle TCP connections; 0 leaves it as it is."),
    Flag("ipvs-tcpfin-timeout", DURATION, _ZERO, "Of TCP connections after a FIN; 0 likewise."),
    Flag("ipvs-udp-timeout", DURATION, _ZERO, "Of UDP packets; 0 leaves it as it is."),
)

_CONNTRACK: Final = (
    Flag(
        "conntrack-max-per-core",
        INT32,
        32768,
        "Connections to track for each CPU; 0 leaves the limit and ignores --conntrack-min.",
    ),
    Flag("conntrack-min", INT32, 131072, "The least number of connections to track."),
    Flag(
        "conntrack-tcp-timeout-established",
        DURATION,
        of_seconds(24 * 3600),
        "Timeout of idle established TCP connections; 0 leaves it as it is.",
    ),
    Flag(
        "conntrack-tcp-timeout-close-wait",
        DURATION,
        of_seconds(3600),
        "Timeout of TCP connections in CLOSE_WAIT; 0 leaves it as it is.",
    ),
    Flag(
        "conntrack-tcp-be-liberal",
        BOOL,
        False,
        "Set nf_conntrack_tcp_be_liberal to 1, so that odd TCP packets count as valid.",
    ),
    Flag(
        "conntrack-udp-timeout",
        DURATION,
        _ZERO,
        "Timeout of UDP connections that saw no reply; 0 leaves it as it is.",
    ),
    Flag(
        "conntrack-udp-timeout-stream",
        DURATION,
        _ZERO,
        "Timeout of UDP connections that saw replies; 0 leaves it as it is.",
    ),
)

_LOGGING: Final = (
    Flag("v", LEVEL, 0, "The verbosity of the log.", shorthand="v"),
    Flag(
        "vmodule",
        VMODULE,
        (),
        "The verbosity of single source files, by patterns on their names without .py;"
        " in text format only.",
    ),
    Flag("logging-format", STRING, "text", "The layout of log lines: text or json."),
    Flag(
        "log-flush-frequency",
        DURATION,
        of_seconds(5),
        "How long a buffered log line may wait; above 0.",
    ),
    Flag("log-text-split-stream", BOOL, False, f"In text format: {_SPLIT}"),
    Flag("log-text-info-buffer-size", QUANTITY, Quantity(), f"In text format: {_BUFFER}"),
    Flag("log-json-split-stream", BOOL, False, f"In JSON format: {_SPLIT}"),
    Flag("log-json-info-buffer-size", QUANTITY, Quantity(), f"In JSON format: {_BUFFER}"),
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
    Flag(
        "nftables-balance",
        STRING,
        "random",
        "How nftables mode chooses an endpoint: random, round-robin or source-hash. The Service's"
        " annotation kubeproxy.io/balance wins over it.",
    ),
    Flag(
        "nftables-endpoint-counters",
        BOOL,
        False,
        "Count connections per endpoint as well, which costs kernel memory for each of them.",
    ),
    Flag(
        "nftables-affinity-size",
        INT32,
        65_535,
        "How many clients of services with session affinity nftables mode remembers one by one;"
        " further ones share 1024 places for each service.",
    ),
    Flag(
        "traffic-metrics",
        STRING,
        "frontend",
        "How fine the metrics of connections are: frontend, service or none.",
    ),
    Flag(
        "traffic-series-limit",
        INT32,
        10_000,
        "How many series each metric of connections may have; 0 is no limit.",
    ),
    Flag(
        "rules-page",
        STRING,
        "local",
        "Who may read the rules on the metrics server: local (root on this host), all or none.",
    ),
    Flag(
        "status-page",
        STRING,
        "local",
        "Who may read the status page on the metrics server: local (root on this host), all"
        " or none.",
    ),
    Flag(
        "status-socket",
        STRING,
        "/run/kube-proxy/status.sock",
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
    "": REFUSED,
}
