"""The trial of nftables mode: the daemon's own program, with a small cluster in it."""

import asyncio
import errno
import os
from collections.abc import Iterator, Mapping

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.leftovers import REMOVED, Fate, Leftover
from kubeproxy.dataplane.nftables.apply import Nftables
from kubeproxy.dataplane.nftables.dump import read_chains
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.guard import TableGuard
from kubeproxy.dataplane.nftables.healing import GROUPS
from kubeproxy.dataplane.nftables.language import HEADERS
from kubeproxy.dataplane.nftables.names import TABLE
from kubeproxy.dataplane.nftables.probe import (
    KernelTooOldError,
    check_release,
    probe,
    probe_healing,
)
from kubeproxy.dataplane.nftables.program import NftablesSettings
from kubeproxy.dataplane.preflight import Finding, Grade, Machine, Scan, lacking, ok
from kubeproxy.dataplane.sample import sample_node, sample_table
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETCHAIN, NFT_MSG_GETTABLE, NFTA_TABLE_NAME
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nflog import LogGroup
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.diff import NO_CHANGES

_TOPIC = "nftables"
_ANOTHER_MODE = "use a newer kernel, or another mode"


def kernel_finding(release: str) -> Finding:
    """Whether the daemon will start on this kernel at all."""
    what = "kernel"
    if not os.environ.get("KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"):
        try:
            check_release(release)
        except KernelTooOldError as error:
            return lacking(_TOPIC, what, error.lacks, error.remedy)
    return ok(_TOPIC, what, f"{release}: 5.13 or later is needed")


def trial(settings: NftablesSettings, machine: Machine) -> list[Finding]:
    """Have the kernel check all kinds of rules, then write some. For a scratch namespace."""
    tried = [_tried(family, settings) for family in machine.families]
    return [*tried, *map(_healing, machine.families)]


def rehearse(machine: Machine) -> list[Finding]:
    """Have the kernel check all kinds of rules, and write none. Needs no scratch namespace."""
    return [_rehearsed(family) for family in machine.families]


def _tried(family: Family, settings: NftablesSettings) -> Finding:
    finding = _rehearsed(family)
    if finding.remedy:
        return finding
    try:
        report = asyncio.run(_sync(family, settings))
    except KernelError as error:
        return lacking(_TOPIC, finding.what, str(error), _ANOTHER_MODE)
    if report.failed:
        name, why = next(iter(report.failed.items()))
        detail = f"the kernel refuses a service like {name}: {why}"
        return lacking(_TOPIC, finding.what, detail, _ANOTHER_MODE)
    detail = f"a whole rule set written, {report.written} objects"
    return ok(_TOPIC, finding.what, detail)


def _healing(family: Family) -> Finding:
    """Whether connections can be healed; a mode without it is a mode."""
    what = f"{family.value} healing"
    try:
        with Nfnetlink() as kernel:
            why_not = probe_healing(kernel, sample_node(family), wanted=False)
            if not why_not:
                LogGroup(GROUPS[family]).close()
    except KernelError as error:
        why_not = str(error)
    if not why_not:
        return ok(_TOPIC, what, "the kernel can do all that nftables.healing may ask for")
    remedy = "leave nftables.healing off, or use a newer kernel"
    return lacking(_TOPIC, what, why_not, remedy, Grade.WARNING)


def _rehearsed(family: Family) -> Finding:
    what = f"{family.value} rules"
    try:
        with Nfnetlink() as kernel:
            probe(kernel, sample_node(family))
    except KernelTooOldError as error:
        return lacking(_TOPIC, what, error.lacks, error.remedy)
    except KernelError as error:
        return lacking(_TOPIC, what, str(error), _ANOTHER_MODE)
    return ok(_TOPIC, what, "the kernel takes every kind of rule (it was only asked)")


async def _sync(family: Family, settings: NftablesSettings) -> SyncReport:
    plane = Nftables(family, settings, Nfnetlink(), TableGuard())
    table, node = sample_table(family), sample_node(family)
    try:
        return await plane.apply(Update(table, node, NO_CHANGES, full=True))
    finally:
        await plane.close()


def seen(scan: Scan) -> Iterator[Leftover]:
    """The tables of nftables mode that exist."""
    return leftovers(scan.at("nftables tables", _tables, {}))


def leftovers(tables: Mapping[Family, bool]) -> Iterator[Leftover]:
    """The tables; for each family that has one, whether this program made it."""
    for ours in sorted(set(tables.values())):
        families = [HEADERS[family].keyword for family, own in tables.items() if own is ours]
        whose = "this program's" if ours else "another kube-proxy's"
        there = f"{whose}, {' and '.join(families)}"
        taken = (
            "taken over, and what differs is written" if ours else "replaced in one transaction"
        )
        yield Leftover("nftables table kube-proxy", there, Fate(taken), REMOVED, REMOVED)


def _tables() -> dict[Family, bool]:
    """The families that have a table, and whether this program made it.

    All hooks of ours have a slash in their names. When upstream takes over, it makes others, and
    leaves chains of ours that no packet reaches.
    """
    found: dict[Family, bool] = {}
    with Nfnetlink() as netfilter:
        for family in Family:
            number = NFPROTO[family]
            try:
                netfilter.get(NFT_MSG_GETTABLE, number, text(NFTA_TABLE_NAME, TABLE))
                chains = read_chains(netfilter.dump(NFT_MSG_GETCHAIN, number), TABLE)
            except Refused as error:
                if error.errno == errno.EPERM:
                    raise PermissionError from error
                continue  # there is none; or the kernel has no nf_tables
            hooks = [name for name, attached in chains.items() if attached]
            found[family] = bool(hooks) and all("/" in name for name in hooks)
    return found
