"""What `check` says of userspace mode: whether rules can be written, and what is there of it."""

import errno
from collections.abc import Iterator

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.leftovers import REMOVED, Fate, Leftover
from kubeproxy.dataplane.preflight import Finding, Grade, Machine, Scan, lacking, ok
from kubeproxy.dataplane.sample import sample_node, sample_table
from kubeproxy.dataplane.userspace.cleanup import NUMBER
from kubeproxy.dataplane.userspace.reach import write
from kubeproxy.dataplane.userspace.render import rendered
from kubeproxy.dataplane.userspace.rules import KEYWORD
from kubeproxy.dataplane.userspace.settings import TABLE
from kubeproxy.linux import tools
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink

_TOPIC = "userspace"
_WITHOUT = "only node ports from 1024 and the places of userspace.portMap are served"


def trial(machine: Machine) -> list[Finding]:
    """Write a sample of the table. For a scratch namespace; what fails is no obstacle."""
    if tools.find("nft") is None:
        detail = f"{_WITHOUT}: the program nft is not installed"
        return [lacking(_TOPIC, "nft", detail, "install nftables", Grade.WARNING)]
    return [_written(family) for family in machine.families]


def _written(family: Family) -> Finding:
    what = f"table {KEYWORD[family]} {TABLE}"
    try:
        write(rendered(sample_table(family), sample_node(family)) + "\n")
    except KernelError as error:
        remedy = "load the kernel module nf_tables, or use what is served without rules"
        return lacking(_TOPIC, what, f"{_WITHOUT}: {error}", remedy, Grade.WARNING)
    return ok(_TOPIC, what)


def seen(scan: Scan) -> Iterator[Leftover]:
    """The table, where there is one."""
    none: tuple[Family, ...] = ()
    families = scan.at("nftables tables", _families, none)
    if families:
        there = " and ".join(KEYWORD[family] for family in families)
        fate = Fate("made anew, in one transaction")
        yield Leftover(f"nftables table {TABLE}", there, fate, REMOVED, REMOVED)


def _families() -> tuple[Family, ...]:
    """The families that have a table."""
    with Nfnetlink() as netfilter:
        return tuple(family for family in Family if _has_table(netfilter, family))


def _has_table(netfilter: Nfnetlink, family: Family) -> bool:
    try:
        netfilter.get(nft.NFT_MSG_GETTABLE, NUMBER[family], text(nft.NFTA_TABLE_NAME, TABLE))
    except Refused as error:
        if error.errno == errno.EPERM:
            raise PermissionError from error
        return False
    return True
