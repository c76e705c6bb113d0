"""The version of this program, and the Kubernetes release whose behaviour it follows."""

VERSION = "0.1.0"

# Dashboards and support tools expect a Kubernetes version, beside ours or in its place. It is the
# upstream release that our behaviour was compared with.
KUBERNETES_VERSION = "v1.38.0"


def described(commit: str, version: str = VERSION, kubernetes: str = KUBERNETES_VERSION) -> str:
    """The versions as people read them; "" is a commit that is not known."""
    source = f"commit {commit}" if commit else "commit unknown"
    return f"kubeproxy {version} ({source}), Kubernetes {kubernetes}"
