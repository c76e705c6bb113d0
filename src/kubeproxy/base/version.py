"""The version of this program, and the Kubernetes release whose behaviour it follows."""

VERSION = "0.1.0"

# What `--version` and the User-Agent report: dashboards and support tools expect a Kubernetes
# version there. It is the upstream release that our behaviour was compared with.
KUBERNETES_VERSION = "v1.38.0"
