"""Reads how full the table of tracked connections is, in this network namespace."""

from pathlib import Path

from kubeproxy.base.conntracktable import ConntrackUse, column_sums
from kubeproxy.linux.sysctl import read_sysctl

_PROC = Path("/proc")
_SETTINGS = "net.netfilter.nf_conntrack"


def conntrack_use(proc: Path = _PROC) -> ConntrackUse | None:
    """The use now; None where connections are not tracked, because the module is not loaded."""
    entries = read_sysctl(f"{_SETTINGS}_count", proc / "sys")
    limit = read_sysctl(f"{_SETTINGS}_max", proc / "sys")
    if entries is None or limit is None:
        return None
    try:
        text = (proc / "net/stat/nf_conntrack").read_text()
    except OSError:  # a kernel without CONFIG_NF_CONNTRACK_PROCFS
        text = ""
    counted = column_sums(text)
    return ConntrackUse(entries, limit, counted.get("insert_failed", 0), counted.get("drop", 0))
