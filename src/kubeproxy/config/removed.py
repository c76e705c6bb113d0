"""What Kubernetes once had and removed: fields of the config file, and flags.

Files outlive releases, so these are known by name. The releases are the first without them.
"""

from collections.abc import Mapping
from typing import Final

_UDP: Final = (
    "set conntrack.udpTimeout and conntrack.udpStreamTimeout, ipvs.udpTimeout in ipvs mode, or"
    " udpIdleTimeout in userspace mode"
)

# With the release, and what to do instead.
REMOVED_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "conntrack.max": ("1.15", "set conntrack.maxPerCore and conntrack.min"),
    "resourceContainer": (
        "1.16",
        "remove it: systemd or the container runtime puts the process into a cgroup",
    ),
    "udpTimeoutMilliseconds": ("1.10", _UDP),
}

_WINDOWS: Final = "this flag exists on Windows only, and this is Linux"
_WINDOWS_FLAGS: Final = """
enable-dsr forward-healthcheck-vip network-name root-hnsendpoint-name source-vip windows-service
"""
_LOG: Final = "Kubernetes removed it in 1.26: logs go to standard error; leave it out"
_LOG_FLAGS: Final = """
add-dir-header alsologtostderr log-backtrace-at log-dir log-file log-file-max-size logtostderr
one-output skip-headers skip-log-headers stderrthreshold
"""
_LIBRARY: Final = (
    "it belonged to a library that upstream was built with, and never did anything for kube-proxy;"
    " leave it out"
)
_LIBRARY_FLAGS: Final = """
application-metrics-count-limit azure-container-registry-config boot-id-file
cloud-provider-gce-lb-src-cidrs container-hints containerd docker docker-env-metadata-whitelist
docker-only docker-root docker-tls docker-tls-ca docker-tls-cert docker-tls-key enable-load-reader
event-storage-age-limit event-storage-event-limit global-housekeeping-interval google-json-key
housekeeping-interval log-cadvisor-usage machine-id-file storage-driver-buffer-duration
storage-driver-db storage-driver-host storage-driver-password storage-driver-secure
storage-driver-table storage-driver-user
"""

# Flags that are rejected like unknown ones, with the reason.
REJECTED_FLAGS: Final[Mapping[str, str]] = {
    "cleanup-iptables": "Kubernetes removed it in 1.15: use --cleanup",
    "cleanup-ipvs": "Kubernetes removed it in 1.21: use --cleanup, which includes ipvs",
    "conntrack-max": (
        "Kubernetes removed it in 1.15: use --conntrack-max-per-core and --conntrack-min"
    ),
    "resource-container": (
        "Kubernetes removed it in 1.16: systemd or the container runtime puts the process into a"
        " cgroup; leave it out"
    ),
    **dict.fromkeys(_WINDOWS_FLAGS.split(), _WINDOWS),
    **dict.fromkeys(_LOG_FLAGS.split(), _LOG),
    **dict.fromkeys(_LIBRARY_FLAGS.split(), _LIBRARY),
}
