"""Whether the kernel forwards packets between interfaces, as a node has to."""

from pathlib import Path

from kubeproxy.base.inet import Family
from kubeproxy.linux.sysctl import read_sysctl

SETTINGS = {Family.IPV4: "net.ipv4.ip_forward", Family.IPV6: "net.ipv6.conf.all.forwarding"}
_INTERFACES = {Family.IPV4: "net/ipv4/conf", Family.IPV6: "net/ipv6/conf"}
_ROOT = Path("/proc/sys")


def forwards(family: Family, root: Path = _ROOT) -> bool:
    """Whether packets of the family are forwarded, by all interfaces or by one of them.

    A family that the kernel lacks forwards nothing and lacks nothing: true.
    """
    whole = read_sysctl(SETTINGS[family], root)
    if whole is None or whole:
        return True
    return any(_is_on(each) for each in (root / _INTERFACES[family]).glob("*/forwarding"))


def _is_on(setting: Path) -> bool:
    try:
        return setting.read_text().strip() != "0"
    except OSError:  # the interface has just gone
        return False
