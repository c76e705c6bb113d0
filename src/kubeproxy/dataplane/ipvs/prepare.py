"""What ipvs mode needs once, before the first sync: the kernel's parts, settings and timeouts."""

import re

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.ipvs.settings import IpvsSettings, Timeouts
from kubeproxy.linux import ipset
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.sysctl import ensure_sysctl

_RELEASE = re.compile(r"(\d+)\.(\d+)")
_REUSE_MODE = "net.ipv4.vs.conn_reuse_mode"
_OLDEST_WITH_REUSE_MODE = (4, 1)
_FIRST_WITH_GOOD_REUSE_MODE = (5, 9)

_SYSCTLS = {
    "net.ipv4.vs.conntrack": 1,
    "net.ipv4.vs.expire_nodest_conn": 1,
    "net.ipv4.vs.expire_quiescent_template": 1,
    "net.ipv4.ip_forward": 1,
}
_STRICT_ARP = {"net.ipv4.conf.all.arp_ignore": 1, "net.ipv4.conf.all.arp_announce": 2}


def prepare(servers: Ipvs, settings: IpvsSettings, release: str) -> None:
    """Raise `KernelError` unless the kernel, of that release, can do what is asked of it."""
    servers.check(settings.scheduler)
    ipset.check()
    ipset.check_matches()
    for name, value in wanted_sysctls(settings, release).items():
        if ensure_sysctl(name, value):
            klog.info("Set sysctl", v=1, entry=name.replace(".", "/"), value=value)
    if _version(release) < _OLDEST_WITH_REUSE_MODE:
        klog.error("This kernel has no conn_reuse_mode: 4.1 or later is needed", release=release)
    timeouts = settings.timeouts
    if timeouts != Timeouts():
        try:
            servers.set_timeouts(timeouts.tcp, timeouts.tcp_fin, timeouts.udp)
        except KernelError as error:
            klog.error("Failed to set the timeouts of ipvs", err=error)


def wanted_sysctls(settings: IpvsSettings, release: str) -> dict[str, int]:
    """The kernel's settings, as they have to be on a kernel of that release.

    A client's port that is used again goes to the same server as before, where others are slow:
    kernels before 5.9 delay such a connection by a second when it is scheduled again.
    """
    wanted = dict(_SYSCTLS)
    if settings.strict_arp:
        wanted |= _STRICT_ARP
    if _OLDEST_WITH_REUSE_MODE <= _version(release) < _FIRST_WITH_GOOD_REUSE_MODE:
        wanted[_REUSE_MODE] = 0
    return wanted


def _version(release: str) -> tuple[int, int]:
    """The version in the name of a release; a recent one where it has none."""
    found = _RELEASE.match(release)
    return (int(found[1]), int(found[2])) if found else _FIRST_WITH_GOOD_REUSE_MODE
