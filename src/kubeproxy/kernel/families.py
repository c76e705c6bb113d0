"""Which IP families this machine speaks."""

from pathlib import Path

from kubeproxy import klog
from kubeproxy.inet import Family


def supported_families(proc: Path = Path("/proc")) -> tuple[Family, ...]:
    """IPv4, and IPv6 when the kernel has it and no sysctl turns it off."""
    if not (proc / "net/if_inet6").exists():
        klog.info("No kernel support for family", ipFamily=Family.IPV6.value)
        return (Family.IPV4,)
    try:
        disabled = (proc / "sys/net/ipv6/conf/all/disable_ipv6").read_text()
    except OSError:
        disabled = "0"
    if disabled.strip() == "1":
        klog.info("Kernel support disabled for family", ipFamily=Family.IPV6.value)
        return (Family.IPV4,)
    return (Family.IPV4, Family.IPV6)
