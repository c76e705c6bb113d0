"""The trial of nftables mode: the daemon's own program, with a small cluster in it."""

import asyncio
import os
import sys
from collections.abc import Iterable

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.nftables.apply import Nftables, Settings
from kubeproxy.dataplane.nftables.guard import Guard
from kubeproxy.dataplane.nftables.probe import KernelTooOldError, check_release, probe
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.table.diff import NO_CHANGES
from kubeproxy.tools.check.finding import Finding, Topic, lacking, ok
from kubeproxy.tools.check.sample import sample_node, sample_table

_ANOTHER_MODE = "use a newer kernel, or another mode"


def kernel_finding(release: str) -> Finding:
    """Whether the daemon will start on this kernel and machine at all."""
    what = "kernel"
    if sys.byteorder != "little":
        detail = "rules are written for little-endian machines, and this one is not"
        return lacking(Topic.NFTABLES, what, detail, "use another mode")
    if not os.environ.get("KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"):
        try:
            check_release(release)
        except KernelTooOldError as error:
            return lacking(Topic.NFTABLES, what, error.lacks, error.remedy)
    return ok(Topic.NFTABLES, what, f"{release}: 5.13 or later is needed")


def written(families: Iterable[Family], settings: Settings) -> list[Finding]:
    """Have the kernel check all kinds of rules, then write some. For a scratch namespace."""
    return [_tried(family, settings) for family in families]


def rehearsed(families: Iterable[Family]) -> list[Finding]:
    """Have the kernel check all kinds of rules, and write none: for where there is no scratch."""
    return [_rehearsed(family) for family in families]


def _tried(family: Family, settings: Settings) -> Finding:
    finding = _rehearsed(family)
    if finding.remedy:
        return finding
    try:
        report = asyncio.run(_sync(family, settings))
    except KernelError as error:
        return lacking(Topic.NFTABLES, finding.what, str(error), _ANOTHER_MODE)
    if report.failed:
        name, why = next(iter(report.failed.items()))
        detail = f"the kernel refuses a service like {name}: {why}"
        return lacking(Topic.NFTABLES, finding.what, detail, _ANOTHER_MODE)
    detail = f"a whole rule set written, {report.written} objects"
    return ok(Topic.NFTABLES, finding.what, detail)


def _rehearsed(family: Family) -> Finding:
    what = f"{family.value} rules"
    try:
        with Nfnetlink() as kernel:
            probe(kernel, sample_node(family))
    except KernelTooOldError as error:
        return lacking(Topic.NFTABLES, what, error.lacks, error.remedy)
    except KernelError as error:
        return lacking(Topic.NFTABLES, what, str(error), _ANOTHER_MODE)
    return ok(Topic.NFTABLES, what, "the kernel takes every kind of rule (it was only asked)")


async def _sync(family: Family, settings: Settings) -> SyncReport:
    plane = Nftables(family, settings, Nfnetlink(), Guard())
    table, node = sample_table(family), sample_node(family)
    try:
        return await plane.apply(Update(table, node, NO_CHANGES, full=True))
    finally:
        await plane.close()
