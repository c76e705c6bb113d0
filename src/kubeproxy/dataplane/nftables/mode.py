"""nftables mode: a table for each family, written over netlink in one transaction a sync."""

import errno
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.healing import parse_healing
from kubeproxy.base.inet import Family
from kubeproxy.config.errors import Level, Notice
from kubeproxy.config.gates import NFTABLES_LOCALHOST_NODE_PORTS, Gates
from kubeproxy.config.types import IPTables
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.config.validate import out_of_range
from kubeproxy.dataplane.contract import Dataplane, EntryChange
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.leftovers import Cleanup, Leftover
from kubeproxy.dataplane.mode import TRANSLATING, Metric, Mode
from kubeproxy.dataplane.nftables.language import Program
from kubeproxy.dataplane.nftables.metrics import LOCALHOST_METRICS, METRICS
from kubeproxy.dataplane.nftables.program import NftablesSettings, program
from kubeproxy.dataplane.nftables.quirks import QUIRKS
from kubeproxy.dataplane.preflight import Finding, Machine, Scan
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView

if TYPE_CHECKING:
    from kubeproxy.dataplane.nftables.fastpath.path import Settings


def _notices(config: Config) -> Iterator[Notice]:
    """When no mode is set: that this one is used, and which settings are for another one."""
    if config.mode:
        return
    yield Notice(
        Level.WARNING,
        "No proxy mode is configured: using nftables, to which Kubernetes moves in 1.40."
        " To stay with another mode, set 'mode' in the config file or --proxy-mode",
        {"mode": "nftables"},
    )
    if config.iptables != IPTables():
        yield Notice(
            Level.WARNING,
            "Settings of the iptables section have no effect in nftables mode:"
            " set 'mode: iptables', or move them to the nftables section",
            {"section": "iptables"},
        )


def _problems(config: Config) -> Iterator[str]:
    bit = config.nftables.masquerade_bit
    return out_of_range("KubeProxyNFTablesConfiguration.MasqueradeBit", bit, 0, 31)


def _settings(config: Config) -> NftablesSettings:
    section = config.nftables
    return NftablesSettings(
        masquerade_bit=config.masquerade_bit,
        endpoint_counters=section.endpoint_counters,
        affinity_size=section.affinity_size,
        retries=section.healing.retries,
        gone_seconds=int(section.healing.gone_timeout.seconds),
    )


def _fast_path(config: Config) -> "Settings":
    from kubeproxy.dataplane.nftables.fastpath.path import Settings

    section = config.nftables.fast_path
    return Settings(section.enabled, section.after_packets, section.interfaces)


def _open(config: Config) -> Callable[[Family], Dataplane]:
    from kubeproxy.dataplane.nftables.apply import Nftables
    from kubeproxy.dataplane.nftables.fastpath.path import FastPath
    from kubeproxy.dataplane.nftables.fastpath.selftest import self_test
    from kubeproxy.dataplane.nftables.guard import TableGuard
    from kubeproxy.dataplane.nftables.probe import check_release, probe, probe_healing
    from kubeproxy.linux.machine import supported_families
    from kubeproxy.linux.nfnetlink import Nfnetlink

    guard = TableGuard()
    fast_path = FastPath(_fast_path(config), supported_families(), self_test, guard)

    def open_family(family: Family) -> Dataplane:
        if not os.environ.get("KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"):
            check_release(os.uname().release)
        kernel = Nfnetlink()
        probe(kernel, NodeView(family))
        wanted = bool(parse_healing(config.nftables.healing.parts))
        why_not = probe_healing(kernel, NodeView(family), wanted=wanted)
        if why_not:
            message = "Services cannot have connections healed, whatever their annotations say"
            klog.info(message, err=why_not, ipFamily=family.value)
        settings = msgspec.structs.replace(_settings(config), can_heal=not why_not)
        return Nftables(family, settings, kernel, guard, fast_path)

    return open_family


def _render(config: Config, table: Table, node: NodeView) -> str:
    from kubeproxy.dataplane.nftables.describe import describe

    return describe(_program(config, table, node), table, node)


def _program(
    config: Config, table: Table, node: NodeView, *, keeps_healing: bool = False
) -> Program:
    heals = keeps_healing or any(entry.healing for entry in table.entries.values())
    return program(node, _settings(config), heals=heals)


def _drift(
    config: Config, table: Table, node: NodeView, failed: Collection[ServicePortName]
) -> list[Difference]:
    from kubeproxy.dataplane.nftables.drift import drift
    from kubeproxy.dataplane.nftables.inspect import has_healing
    from kubeproxy.linux.nfnetlink import Nfnetlink

    with Nfnetlink() as kernel:
        # Without a Service that is healed they do no harm, and stay until a full sync.
        kept = has_healing(kernel, table.family)
        wanted = _program(config, table, node, keeps_healing=kept)
        return drift(kernel, wanted, table, node, failed)


def _tally(config: Config, node: NodeView) -> Callable[[EntryChange], int]:
    from kubeproxy.dataplane.nftables.tally import tally

    return tally(program(node, _settings(config), heals=True), node)


def _habits(config: Config) -> Mapping[str, str]:
    return {
        "choice of endpoints": config.nftables.balance,
        **TRANSLATING,
        "firewalls of the node": (
            "no rule accepts anything: what a firewall drops in FORWARD or INPUT is dropped"
        ),
    }


def _check(machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.nftables.check import kernel_finding

    return [kernel_finding(machine.release)]


def _trial(config: Config, machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.nftables.check import trial
    from kubeproxy.dataplane.nftables.fastpath.check import finding

    wanted = config.nftables.fast_path.enabled
    return [*trial(_settings(config), machine), finding(machine.families, wanted=wanted)]


def _rehearse(machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.nftables.check import rehearse

    return rehearse(machine)


def _leftovers(scan: Scan) -> Iterator[Leftover]:
    from kubeproxy.dataplane.nftables.check import seen

    return seen(scan)


def _clean_up(cleanup: Cleanup) -> None:
    from kubeproxy.dataplane.nftables.encode import delete_table
    from kubeproxy.dataplane.nftables.fastpath.path import remove
    from kubeproxy.dataplane.nftables.fastpath.table import TABLE as FAST_PATH
    from kubeproxy.dataplane.nftables.language import HEADERS
    from kubeproxy.dataplane.nftables.names import TABLE
    from kubeproxy.linux.netlink_socket import Refused
    from kubeproxy.linux.nfnetlink import Nfnetlink

    for family in Family if cleanup.has_nf_tables else ():
        with cleanup.step(), Nfnetlink() as netfilter:
            try:
                netfilter.commit((delete_table(family, TABLE),))
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
            else:
                cleanup.note(f"nftables table {HEADERS[family].keyword} {TABLE}")
    with cleanup.step():
        if cleanup.has_nf_tables and remove():
            cleanup.note(f"nftables table inet {FAST_PATH}")


def _metrics(gates: Gates) -> tuple[Metric, ...]:
    localhost = gates.enabled(NFTABLES_LOCALHOST_NODE_PORTS)
    return (*METRICS, *(LOCALHOST_METRICS if localhost else ()))


MODE = Mode(
    name="nftables",
    node_port_addresses=("primary",),
    notices=_notices,
    problems=_problems,
    quirks=QUIRKS,
    open=_open,
    render=_render,
    drift=_drift,
    tally=_tally,
    habits=_habits,
    check=_check,
    trial=_trial,
    rehearse=_rehearse,
    leftovers=_leftovers,
    clean_up=_clean_up,
    metrics=_metrics,
    why_no_loopback=lambda _family: (
        f"nftables mode needs the feature gate {NFTABLES_LOCALHOST_NODE_PORTS} for that"
    ),
    counts_endpoints=lambda config: config.nftables.endpoint_counters,
    has_fast_path=True,
    balances=True,
)
