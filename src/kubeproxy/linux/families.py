"""Which IP families this machine speaks."""

from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.inet import Family


def supported_families(proc: Path = Path("/proc")) -> tuple[Family, ...]:
    """IPv4, and IPv6 when the kernel has it and no sysctl turns it off."""
    missing = why_no_ipv6(proc)
    if missing:
        klog.info(missing, ipFamily=Family.IPV6.value)
        return (Family.IPV4,)
    return (Family.IPV4, Family.IPV6)


def why_no_ipv6(proc: Path = Path("/proc")) -> str:
    """Why this machine does not speak IPv6; "" when it does."""
    if not (proc / "net/if_inet6").exists():
        return "No kernel support for family"
    try:
        disabled = (proc / "sys/net/ipv6/conf/all/disable_ipv6").read_text()
    except OSError:
        disabled = "0"
    return "Kernel support disabled for family" if disabled.strip() == "1" else ""
