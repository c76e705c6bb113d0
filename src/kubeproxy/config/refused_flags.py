"""Flags that upstream has elsewhere or once had: refused like unknown ones, with the reason."""

from collections.abc import Mapping
from typing import Final

from kubeproxy.config.flagset import Flag
from kubeproxy.config.kinds import STRING

_WINDOWS: Final = "this flag exists on Windows only, and this is Linux"
_LOG: Final = "Kubernetes removed it in 1.26: logs go to standard error; leave it out"
_LIBRARY: Final = (
    "it belonged to a library that upstream was built with, and never did anything for kube-proxy;"
    " leave it out"
)

_REASONS: Final[Mapping[str, str]] = {
    "cleanup-iptables": "Kubernetes removed it in 1.15: use --cleanup",
    "cleanup-ipvs": "Kubernetes removed it in 1.21: use --cleanup, which includes ipvs",
    "conntrack-max": (
        "Kubernetes removed it in 1.15: use --conntrack-max-per-core and --conntrack-min"
    ),
    "proxy-port-range": (
        "Kubernetes removed it in 1.31: it was for userspace mode, which is gone since 1.26;"
        " leave it out"
    ),
    "resource-container": (
        "Kubernetes removed it in 1.16: systemd or the container runtime puts the process into a"
        " cgroup; leave it out"
    ),
    "udp-timeout": (
        "Kubernetes removed it in 1.26, with userspace mode: use --conntrack-udp-timeout and"
        " --conntrack-udp-timeout-stream, or --ipvs-udp-timeout in ipvs mode"
    ),
}
_WINDOWS_NAMES: Final = (
    "enable-dsr",
    "forward-healthcheck-vip",
    "network-name",
    "root-hnsendpoint-name",
    "source-vip",
    "windows-service",
)
_LOG_NAMES: Final = (
    "add-dir-header",
    "alsologtostderr",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
)
_LIBRARY_NAMES: Final = (
    "application-metrics-count-limit",
    "azure-container-registry-config",
    "boot-id-file",
    "cloud-provider-gce-lb-src-cidrs",
    "container-hints",
    "containerd",
    "docker",
    "docker-env-metadata-whitelist",
    "docker-only",
    "docker-root",
    "docker-tls",
    "docker-tls-ca",
    "docker-tls-cert",
    "docker-tls-key",
    "enable-load-reader",
    "event-storage-age-limit",
    "event-storage-event-limit",
    "global-housekeeping-interval",
    "google-json-key",
    "housekeeping-interval",
    "log-cadvisor-usage",
    "machine-id-file",
    "storage-driver-buffer-duration",
    "storage-driver-db",
    "storage-driver-host",
    "storage-driver-password",
    "storage-driver-secure",
    "storage-driver-table",
    "storage-driver-user",
)

REFUSED: Final = tuple(
    Flag(name, STRING, "", "", refused=reason)
    for name, reason in (
        *_REASONS.items(),
        *((name, _WINDOWS) for name in _WINDOWS_NAMES),
        *((name, _LOG) for name in _LOG_NAMES),
        *((name, _LIBRARY) for name in _LIBRARY_NAMES),
    )
)
