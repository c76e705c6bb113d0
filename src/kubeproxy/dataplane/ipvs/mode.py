"""ipvs mode: virtual servers of the kernel, with ipsets and a few iptables rules around them."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping

from kubeproxy.base.inet import Family, parse_prefix
from kubeproxy.config.errors import Level, Notice, invalid
from kubeproxy.config.gates import KUBE_PROXY_IPVS
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.config.validate import negative
from kubeproxy.dataplane.contract import Dataplane, EntryChange
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.ipvs.settings import (
    DEFAULT_SCHEDULER,
    DEVICE,
    QUIRKS,
    IpvsSettings,
    Timeouts,
)
from kubeproxy.dataplane.leftovers import Cleanup, Leftover
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.preflight import Finding, Machine, Scan
from kubeproxy.dataplane.sysctls import Sysctl, Sysctls
from kubeproxy.dataplane.xtables_text import PAST_FIREWALLS, RESTORE_FAILURES
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView

_DEPRECATION = Notice(
    Level.ERROR,
    "The ipvs proxy mode is deprecated: Kubernetes turns it off by default in 1.40"
    " and removes it in 1.43. Use the nftables mode instead",
)


def _problems(config: Config) -> Iterator[str]:
    path, section = "KubeProxyIPVSConfiguration", config.ipvs
    yield from negative(
        path,
        TCPTimeout=section.tcp_timeout,
        TCPFinTimeout=section.tcp_fin_timeout,
        UDPTimeout=section.udp_timeout,
    )
    for index, cidr in enumerate(section.exclude_cidrs):
        if parse_prefix(cidr) is None:
            yield invalid(f"{path}.ExcludeCidrs[{index}]", cidr, "must be a valid CIDR")


def settings(config: Config) -> IpvsSettings:
    """The settings of ipvs mode."""
    section = config.ipvs
    return IpvsSettings(
        masquerade_bit=config.masquerade_bit,
        scheduler=section.scheduler or DEFAULT_SCHEDULER,
        excluded=tuple(filter(None, map(parse_prefix, section.exclude_cidrs))),
        strict_arp=section.strict_arp,
        timeouts=Timeouts(
            int(section.tcp_timeout.seconds),
            int(section.tcp_fin_timeout.seconds),
            int(section.udp_timeout.seconds),
        ),
    )


def _open(config: Config) -> Callable[[Family], Dataplane]:
    from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
    from kubeproxy.dataplane.ipvs.prepare import prepare
    from kubeproxy.linux.ipvs import Ipvs
    from kubeproxy.linux.xtables import Xtables

    def open_family(family: Family) -> Dataplane:
        servers = Ipvs()
        prepare(servers, settings(config), os.uname().release)
        return IpvsDataplane(settings(config), servers, Xtables(family))

    return open_family


def _render(config: Config, table: Table, node: NodeView) -> str:
    from kubeproxy.dataplane.ipvs.render import describe

    return describe(table, node, settings(config)).rstrip("\n")


def _tally(config: Config, node: NodeView) -> Callable[[EntryChange], int]:
    from kubeproxy.dataplane.ipvs.plan import setup_of
    from kubeproxy.dataplane.ipvs.tally import tally

    return tally(setup_of(node, settings(config).scheduler))


def _habits(config: Config) -> Mapping[str, str]:
    return {
        "choice of endpoints": f"ipvs scheduler {settings(config).scheduler}",
        "addresses of Services": (
            f"bound to {DEVICE}: programs of the node can send from there, and listen there"
        ),
        "established connections": "kept by ipvs: they may be reset when its rules are removed",
        **PAST_FIREWALLS,
    }


def _drift(
    config: Config, table: Table, node: NodeView, _failed: Collection[ServicePortName]
) -> list[Difference]:
    from kubeproxy.dataplane.ipvs.apply import IpvsDataplane
    from kubeproxy.dataplane.ipvs.difference import differences
    from kubeproxy.linux.ipvs import Ipvs
    from kubeproxy.linux.links import device_index
    from kubeproxy.linux.xtables import Xtables

    with Ipvs() as servers:
        plane = IpvsDataplane(settings(config), servers, Xtables(table.family))
        survey = plane.survey(table, node)
    return list(differences(survey, table.family, has_device=bool(device_index(DEVICE))))


def _sysctls(config: Config, _nodes: Mapping[Family, NodeView], release: str) -> Sysctls:
    from kubeproxy.dataplane.ipvs.prepare import wanted_sysctls

    values = wanted_sysctls(settings(config), release)
    wanted = tuple(Sysctl(name, value, "") for name, value in values.items())
    return Sysctls(wanted, "ipvs settings")


def _trial(config: Config, machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.ipvs.check import trial

    return trial(settings(config), machine)


def _leftovers(scan: Scan) -> Iterator[Leftover]:
    from kubeproxy.dataplane.ipvs.check import seen

    return seen(scan)


def _clean_up(cleanup: Cleanup) -> None:
    from kubeproxy.dataplane.ipvs.cleanup import clean_up

    clean_up(cleanup)


MODE = Mode(
    name="ipvs",
    gate=KUBE_PROXY_IPVS,
    notices=lambda _config: (_DEPRECATION,),
    problems=_problems,
    quirks=QUIRKS,
    open=_open,
    render=_render,
    drift=_drift,
    tally=_tally,
    habits=_habits,
    sysctls=_sysctls,
    trial=_trial,
    leftovers=_leftovers,
    clean_up=_clean_up,
    metrics=lambda _gates: (RESTORE_FAILURES,),
    why_no_loopback=lambda _family: "localhost NodePorts are not supported in ipvs mode",
    uses_iptables=True,
    uses_ipset=True,
    device=DEVICE,
    full_sync_period=None,
    times_full_syncs=False,
    counts_services=True,
)
