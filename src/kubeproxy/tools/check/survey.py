"""The whole check: trials in scratch namespaces, and meanwhile a look at the node itself."""

import os
import socket
import time
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.ipvs.prepare import wanted_sysctls
from kubeproxy.dataplane.ipvs.settings import Settings as IpvsSettings
from kubeproxy.dataplane.nftables.apply import Settings as NftablesSettings
from kubeproxy.engine.node import LOOPBACK_IP, NodeIPs, node_port_ranges
from kubeproxy.engine.settings import Setting, wanted_at_init, wanted_settings
from kubeproxy.linux.machine import online_cores, why_no_ipv6
from kubeproxy.linux.tools import find
from kubeproxy.table.node import Mode, Node
from kubeproxy.tools.check import conntrack, host, iptables, ipvs, nftables
from kubeproxy.tools.check.finding import Finding, State, Topic, lacking, ok
from kubeproxy.tools.check.judge import Report, concerning, judge
from kubeproxy.tools.check.modules import Modules
from kubeproxy.tools.check.ports import Wanted, holder, port_finding
from kubeproxy.tools.check.rights import Rights, right_findings
from kubeproxy.tools.check.rivals import rival_findings
from kubeproxy.tools.check.scratch import Broken, Child, Told, Trial
from kubeproxy.tools.check.sightings import sightings
from kubeproxy.tools.check.sysctls import (
    OPERATORS,
    localhost_findings,
    operator_findings,
    proxy_findings,
)

# A trial takes a fraction of a second; on a machine that is busy beyond measure, some.
_SECONDS = 20.0

_NO_SCRATCH = (
    "run this check as root on the node; without root, user namespaces must be allowed (sysctl"
    " user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a"
    " container also its seccomp profile)"
)


class Plan(msgspec.Struct, frozen=True):
    """What is going to be run: the configuration of each mode that may be."""

    configs: dict[Mode, KubeProxyConfiguration]
    ipvs: IpvsSettings

    @property
    def config(self) -> KubeProxyConfiguration:
        """What all modes have in common."""
        return next(iter(self.configs.values()))


class Ground(msgspec.Struct, frozen=True):
    """Where this process stands."""

    release: str
    rights: Rights
    families: tuple[Family, ...]


def survey(plan: Plan) -> Report:
    """Look at everything that matters for the modes of the plan."""
    no_ipv6 = why_no_ipv6()
    families = (Family.IPV4,) if no_ipv6 else tuple(Family)
    ground = Ground(os.uname().release, host.own_rights(), families)
    deadline = time.monotonic() + _SECONDS
    trials = {topic: Child(trial) for topic, trial in _trials(plan, ground)}
    programs = host.programs(families)
    seen = sightings(programs.kind, administers=ground.rights.administers)
    outcomes = {topic: child.outcome(deadline) for topic, child in trials.items()}
    findings = [
        _families(no_ipv6),
        nftables.kernel_finding(ground.release),
        *right_findings(ground.rights, legacy=programs.kind == "legacy"),
        *programs.findings,
        *(finding for topic in outcomes for finding in _of(topic, outcomes[topic], ground)),
        *_settings(plan, ground, seen.devices),  # after the trials: modules bring their settings
        *rival_findings(seen, plan.configs),
        *_ports(plan.config),
    ]
    concerned = concerning(findings, plan.configs.keys())
    verdicts = tuple(judge(mode, concerned) for mode in plan.configs)
    node = socket.gethostname()
    return Report(node, ground.release, str(ground.rights), verdicts, concerned)


def _families(no_ipv6: str) -> Finding:
    if not no_ipv6:
        return ok(Topic.NODE, "IP families", "IPv4 and IPv6")
    return ok(Topic.NODE, "IP families", f"IPv4 only; IPv6: {no_ipv6[0].lower()}{no_ipv6[1:]}")


# --- trials -----------------------------------------------------------------------------------


def _trials(plan: Plan, ground: Ground) -> Iterator[tuple[Topic, Trial]]:
    """What is tried, each in a namespace of its own."""
    families = ground.families
    yield Topic.NODE, partial(conntrack.listed, families)
    for mode, config in plan.configs.items():
        bit = config.masquerade_bit
        match mode:
            case Mode.NFTABLES:
                ours = config.nftables
                settings = NftablesSettings(bit, ours.endpoint_counters, ours.affinity_size)
                yield Topic.NFTABLES, partial(nftables.written, families, settings)
            case Mode.IPTABLES:
                yield Topic.IPTABLES, partial(iptables.written, families, bit)
            case Mode.IPVS:
                yield (
                    Topic.IPVS,
                    partial(ipvs.written, _ipvs_means(plan.ipvs.scheduler, bit, ground)),
                )


def _ipvs_means(scheduler: str, bit: int, ground: Ground) -> ipvs.Means:
    modules = Modules(
        host.available_modules(ground.release),
        host.present_modules(ground.release),
        loads=ground.rights.may_load_modules and find("modprobe") is not None,
    )
    return ipvs.Means(ground.families, scheduler, bit, modules)


def _of(topic: Topic, outcome: Told | Broken, ground: Ground) -> Sequence[Finding]:
    """What a trial found; nftables rules can be rehearsed without a namespace for them, too."""
    what = "conntrack" if topic is Topic.NODE else "rules"
    if isinstance(outcome, Broken):
        remedy = "run it again; if that stays so, report it"
        detail = f"the trial in a scratch namespace has no result: {outcome.why}"
        return [lacking(topic, what, detail, remedy, State.UNKNOWN)]
    if not outcome.refused:
        return outcome.findings
    if topic is Topic.NFTABLES and ground.rights.administers:
        return nftables.rehearsed(ground.families)
    detail = f"could not be tried: a scratch network namespace is refused ({outcome.refused})"
    return [lacking(topic, what, detail, _NO_SCRATCH, State.UNKNOWN)]


# --- settings and ports -----------------------------------------------------------------------


def _settings(plan: Plan, ground: Ground, devices: frozenset[str]) -> Iterator[Finding]:
    root = ground.rights.is_root
    limits = wanted_settings(plan.config.conntrack, online_cores())
    found = host.readings(setting.name for setting in limits)
    yield from proxy_findings(Topic.NODE, "conntrack settings", limits, found, root=root)
    operators = [name for family in ground.families for name in OPERATORS[family]]
    yield from operator_findings(host.readings(operators), devices)
    if Mode.IPTABLES in plan.configs:
        wanted = _wanted_localhost(plan.configs[Mode.IPTABLES])
        found = host.readings(setting.name for setting in wanted)
        yield from localhost_findings(wanted, found, root=root)
    if Mode.IPVS in plan.configs:
        values = wanted_sysctls(plan.ipvs, ground.release)
        found = host.readings(values)
        # Those of ip_vs come with its module.
        of_ipvs = [
            Setting(name, values[name], "") for name in values if found[name].value is not None
        ]
        yield from proxy_findings(Topic.IPVS, "ipvs settings", of_ipvs, found, root=root)


def _wanted_localhost(config: KubeProxyConfiguration) -> tuple[Setting, ...]:
    ranges = node_port_ranges(config, NodeIPs(Family.IPV4, LOOPBACK_IP), Family.IPV4)
    localhost = config.iptables.localhost_node_ports
    node = Node(Family.IPV4, node_port_ranges=ranges, localhost_node_ports=localhost)
    return wanted_at_init(Mode.IPTABLES, {Family.IPV4: node})


def _ports(config: KubeProxyConfiguration) -> list[Finding]:
    vital = config.bind_address_hard_fail
    places = (
        Wanted("health", config.healthz_bind_address, "healthzBindAddress", vital),
        Wanted("metrics", config.metrics_bind_address, "metricsBindAddress", vital),
    )
    listening = host.listeners()
    held = {place: holder(place, listening) for place in places if place.where}
    owners = host.owners({listener.inode for listener in held.values() if listener})
    return [port_finding(place, listener, owners) for place, listener in held.items()]
