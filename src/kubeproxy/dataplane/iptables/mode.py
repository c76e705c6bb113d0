"""iptables mode: chains for each service, written by one `iptables-restore` a sync."""

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec.structs import replace

from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.dataplane.contract import Dataplane, EntryChange
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.iptables.metrics import METRICS
from kubeproxy.dataplane.iptables.setup import (
    BE_LIBERAL,
    COUNTERS,
    QUIRKS,
    ROUTE_LOCALNET,
    Options,
    serves_localhost,
)
from kubeproxy.dataplane.leftovers import Cleanup, Leftover
from kubeproxy.dataplane.mode import TRANSLATING, Mode
from kubeproxy.dataplane.preflight import Finding, Machine, Scan
from kubeproxy.dataplane.sysctls import Sysctl, Sysctls
from kubeproxy.dataplane.xtables_chains import chain_leftover, own_by_mode
from kubeproxy.dataplane.xtables_text import PAST_FIREWALLS
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView


def _open(config: Config) -> Callable[[Family], Dataplane]:
    from kubeproxy.dataplane.iptables.apply import Iptables, IptablesSettings
    from kubeproxy.linux.xtables import Xtables

    settings = IptablesSettings(config.masquerade_bit, config.sync_period.seconds)
    return lambda family: Iptables(settings, Xtables(family))


def _render(config: Config, table: Table, node: NodeView) -> str:
    """As on a kernel that has nfnetlink_acct, which most have."""
    from kubeproxy.dataplane.iptables.describe import describe

    options = Options(
        config.masquerade_bit,
        drops_invalid=not config.conntrack.tcp_be_liberal,
        counters=frozenset(COUNTERS),
    )
    return describe(table, node, options).rstrip("\n")


def _tally(config: Config, node: NodeView) -> Callable[[EntryChange], int]:
    from kubeproxy.dataplane.iptables.setup import setup_of
    from kubeproxy.dataplane.iptables.tally import tally

    return tally(setup_of(node, Options(config.masquerade_bit)))


def _drift(
    config: Config, table: Table, node: NodeView, _failed: Collection[ServicePortName]
) -> list[Difference]:
    """Counters that exist are those that rules use: the daemon has created them if it could."""
    from kubeproxy.dataplane.iptables.difference import drift
    from kubeproxy.linux.nfacct import read_packets
    from kubeproxy.linux.sysctl import read_sysctl
    from kubeproxy.linux.xtables import Xtables

    programs = Xtables(table.family)
    saved = {name: programs.save(name) for name in ("filter", "nat")}
    counters = frozenset(read_packets(COUNTERS))
    options = Options(config.masquerade_bit, not read_sysctl(BE_LIBERAL), counters)
    return drift(saved, table, node, options)


def _sysctls(_config: Config, nodes: Mapping[Family, NodeView], _release: str) -> Sysctls:
    node = nodes.get(Family.IPV4)
    wanted = (Sysctl(ROUTE_LOCALNET, 1, "iptables.localhostNodePorts: false"),)
    return Sysctls(
        wanted if node and serves_localhost(node) else (),
        "node ports on 127.0.0.1",
        without="they are not served",
    )


def _why_no_loopback(family: Family) -> str:
    """Upstream's texts."""
    if family is Family.IPV4:
        return "--iptables-localhost-nodeports=false was passed"
    return "localhost NodePorts are not supported on IPv6"


def _trial(config: Config, machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.iptables.check import trial

    return trial(config.masquerade_bit, machine)


def _leftovers(scan: Scan) -> Iterator[Leftover]:
    """The chains of iptables mode, and those of userspace mode, which no mode takes over."""
    for chains in scan.chains:
        own = own_by_mode(chains.own)
        if own.userspace:
            old = chain_leftover(replace(chains, own=own.userspace), scan.kind, "userspace")
            yield old._replace(own=old.beside)
        if own.iptables:
            yield chain_leftover(replace(chains, own=own.iptables), scan.kind, "iptables")


def _clean_up(cleanup: Cleanup) -> None:
    from kubeproxy.dataplane.iptables.cleanup import clean_up

    clean_up(cleanup)


MODE = Mode(
    name="iptables",
    quirks=QUIRKS,
    open=_open,
    render=_render,
    drift=_drift,
    tally=_tally,
    habits=lambda _config: {
        "choice of endpoints": "random",
        **TRANSLATING,
        **PAST_FIREWALLS,
    },
    sysctls=_sysctls,
    trial=_trial,
    leftovers=_leftovers,
    clean_up=_clean_up,
    metrics=lambda _gates: METRICS,
    why_no_loopback=_why_no_loopback,
    uses_iptables=True,
    counts_rules=True,
)
