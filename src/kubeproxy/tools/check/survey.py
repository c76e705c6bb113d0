"""The whole check: trials in scratch namespaces, and meanwhile a look at the node itself."""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.preflight import (
    NODE,
    Finding,
    Grade,
    Machine,
    Modules,
    lacking,
    ok,
)
from kubeproxy.engine.node import node_view
from kubeproxy.engine.settings import wanted_sysctls
from kubeproxy.linux.conntrack import udp_flows
from kubeproxy.linux.machine import online_cores, why_no_ipv6
from kubeproxy.linux.tools import find
from kubeproxy.table.node import Node
from kubeproxy.tools.check import host
from kubeproxy.tools.check.judge import Report, concerning, judge
from kubeproxy.tools.check.ports import WantedPort, holder, port_finding
from kubeproxy.tools.check.rights import Rights, right_findings
from kubeproxy.tools.check.rivals import rival_findings
from kubeproxy.tools.check.scratch import Broken, Child, TrialResult
from kubeproxy.tools.check.sightings import sightings
from kubeproxy.tools.check.sysctls import (
    OPERATORS,
    mode_findings,
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
    """A mode that may be run, and its configuration."""

    mode: Mode
    config: KubeProxyConfiguration


def survey(plans: Sequence[Plan]) -> Report:
    """Look at everything that matters for these modes."""
    no_ipv6 = why_no_ipv6()
    rights = host.own_rights()
    machine = _machine((Family.IPV4,) if no_ipv6 else tuple(Family), rights)
    modes = [plan.mode for plan in plans]
    deadline = time.monotonic() + _SECONDS
    trials = {
        NODE: Child(partial(_conntrack, machine.families)),
        **{p.mode.name: Child(partial(p.mode.trial, p.config, machine)) for p in plans},
    }
    programs = host.programs(machine.families)
    seen = sightings(programs.kind, administers=rights.administers)
    outcomes = {topic: child.outcome(deadline) for topic, child in trials.items()}
    findings = [
        _families(no_ipv6),
        *(finding for mode in modes for finding in mode.check(machine)),
        *right_findings(rights, legacy=programs.kind == "legacy"),
        *programs.findings,
        *_found(NODE, "conntrack", outcomes[NODE]),
        *(
            finding
            for mode in modes
            for finding in _tried(mode, outcomes[mode.name], machine, rights)
        ),
        # After the trials: modules bring their settings.
        *_settings(plans, machine, seen.scan.devices, root=rights.is_root),
        *rival_findings(seen, modes),
        *_ports(plans[0].config),
    ]
    concerned = concerning(findings, modes)
    verdicts = tuple(judge(mode, concerned) for mode in modes)
    return Report(socket.gethostname(), machine.release, str(rights), verdicts, concerned)


def _machine(families: tuple[Family, ...], rights: Rights) -> Machine:
    release = os.uname().release
    modules = Modules(
        host.available_modules(release),
        host.present_modules(release),
        loads=rights.may_load_modules and find("modprobe") is not None,
    )
    return Machine(release, families, modules)


def _families(no_ipv6: str) -> Finding:
    if not no_ipv6:
        return ok(NODE, "IP families", "IPv4 and IPv6")
    return ok(NODE, "IP families", f"IPv4 only; IPv6: {no_ipv6[0].lower()}{no_ipv6[1:]}")


def _conntrack(families: Iterable[Family]) -> list[Finding]:
    """List the UDP flows of each family. For a scratch namespace, which has none."""
    what = "conntrack"
    try:
        for family in families:
            list(udp_flows(family))
    except KernelError as error:
        return [
            lacking(
                NODE,
                what,
                f"flows to endpoints that are gone cannot be forgotten: {error}",
                "modprobe nf_conntrack_netlink",
                Grade.WARNING,
            )
        ]
    return [ok(NODE, what, "flows can be listed, and stale ones forgotten")]


def _tried(
    mode: Mode, outcome: TrialResult | Broken, machine: Machine, rights: Rights
) -> Sequence[Finding]:
    """What the trial of a mode found; some can be rehearsed without a scratch namespace."""
    refused = isinstance(outcome, TrialResult) and outcome.refused
    if refused and mode.rehearse is not None and rights.administers:
        return mode.rehearse(machine)
    return _found(mode.name, "rules", outcome)


def _found(topic: str, what: str, outcome: TrialResult | Broken) -> Sequence[Finding]:
    if isinstance(outcome, Broken):
        remedy = "run it again; if that stays so, report it"
        detail = f"the trial in a scratch namespace has no result: {outcome.why}"
        return [lacking(topic, what, detail, remedy, Grade.UNKNOWN)]
    if not outcome.refused:
        return outcome.findings
    detail = f"could not be tried: a scratch network namespace is refused ({outcome.refused})"
    return [lacking(topic, what, detail, _NO_SCRATCH, Grade.UNKNOWN)]


def _settings(
    plans: Sequence[Plan], machine: Machine, devices: frozenset[str], *, root: bool
) -> Iterator[Finding]:
    limits = wanted_sysctls(plans[0].config.conntrack, online_cores())
    found = host.readings(each.name for each in limits)
    yield from proxy_findings(NODE, "conntrack settings", limits, found, root=root)
    made = {
        plan.mode.name: plan.mode.sysctls(plan.config, _nodes(plan.config), machine.release)
        for plan in plans
    }
    names = {mode: {each.name for each in sysctls.wanted} for mode, sysctls in made.items()}
    operators = [name for family in machine.families for name in OPERATORS[family]]
    yield from operator_findings(host.readings(operators), devices, names)
    for mode, sysctls in made.items():
        yield from mode_findings(mode, sysctls, host.readings(names[mode]), root=root)


def _nodes(config: KubeProxyConfiguration) -> dict[Family, Node]:
    """This node as far as the configuration alone says."""
    return {family: node_view(config, Gates(), family, NodeState("")) for family in Family}


def _ports(config: KubeProxyConfiguration) -> list[Finding]:
    vital = config.bind_address_hard_fail
    places = (
        WantedPort("health", config.healthz_bind_address, "healthzBindAddress", vital),
        WantedPort("metrics", config.metrics_bind_address, "metricsBindAddress", vital),
    )
    listening = host.listeners()
    held = {place: holder(place, listening) for place in places if place.where}
    owners = host.owners({listener.inode for listener in held.values() if listener})
    return [port_finding(place, listener, owners) for place, listener in held.items()]
