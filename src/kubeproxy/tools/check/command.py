"""`kube-proxy check`: what this node has and lacks for each mode, before anything is installed.

Trials in scratch namespaces, and meanwhile a look at the node itself.
"""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.gates import Gates
from kubeproxy.config.load import load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.dataplane.preflight import NODE, Finding, Grade, Machine, Modules, lacking, ok
from kubeproxy.dataplane.sysctls import Sysctls
from kubeproxy.engine.node import node_view
from kubeproxy.engine.settings import wanted_sysctls
from kubeproxy.linux.conntrack import udp_flows
from kubeproxy.linux.machine import online_cores, why_no_ipv6
from kubeproxy.linux.tools import find
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
from kubeproxy.tools.check.view import screen
from kubeproxy.tools.command import OUTPUT, Command, print_answer

# A trial takes a fraction of a second; on a machine that is busy beyond measure, some.
_SECONDS = 20.0

_NO_SCRATCH = (
    "run this check as root on the node; without root, user namespaces must be allowed (sysctl"
    " user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a"
    " container also its seccomp profile)"
)
_AFTERWARDS: Final = """
Without --config and --proxy-mode every mode is judged. Nothing on the node is changed.
Exit codes: 0 when the mode, or one of them, would work here, 1 when not.
"""

# The daemon's flags that change what is looked at. All others are taken, and change nothing.
_SHARED: Final = frozenset(
    {
        *("config", "feature-gates", "help", "proxy-mode"),
        *("bind-address", "bind-address-hard-fail"),
        *("healthz-bind-address", "metrics-bind-address", "nodeport-addresses"),
        *("iptables-localhost-nodeports", "ipvs-scheduler", "ipvs-strict-arp"),
        *("conntrack-max-per-core", "conntrack-min"),
        *("conntrack-tcp-timeout-close-wait", "conntrack-tcp-timeout-established"),
    }
)


class Plan(msgspec.Struct, frozen=True):
    """A mode that may be run, and its configuration."""

    mode: Mode
    config: KubeProxyConfiguration


def _run(parsed: Parsed) -> int:
    """Judge the mode that the command line or its config file names; all when neither does."""
    named = parsed.value("config", str) or parsed.value("proxy-mode", str)
    report = survey([_plan(parsed, mode) for mode in (("",) if named else MODES)])
    print_answer(parsed, report, partial(screen, report), cut=False)  # a remedy is never cut off
    return 0 if report.works else 1


def _plan(parsed: Parsed, mode: str) -> Plan:
    loaded = load(parsed, MODES, mode)
    validate(loaded.config, loaded.gates, MODES)
    return Plan(load_mode(loaded.config.mode), loaded.config)


COMMAND: Final = Command(
    "check",
    (OUTPUT, *FLAGS),
    _run,
    _AFTERWARDS,
    listed=(OUTPUT, *(replace(flag, group="Proxy") for flag in FLAGS if flag.name in _SHARED)),
    kernel=True,
)
main, usage_text = COMMAND.main, COMMAND.usage_text


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
    without = f"only; IPv6: {no_ipv6[0].lower()}{no_ipv6[1:]}" if no_ipv6 else "and IPv6"
    findings = [
        ok(NODE, "IP families", f"IPv4 {without}"),
        *(finding for mode in modes for finding in mode.check(machine)),
        *right_findings(rights, legacy=programs.kind == "legacy"),
        *programs.findings,
        *_found(NODE, "conntrack", outcomes[NODE]),
        *(each for mode in modes for each in _tried(mode, outcomes[mode.name], machine, rights)),
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


def _conntrack(families: Iterable[Family]) -> list[Finding]:
    """List the UDP flows of each family. For a scratch namespace, which has none."""
    try:
        for family in families:
            list(udp_flows(family))
    except KernelError as error:
        detail = f"flows to endpoints that are gone cannot be forgotten: {error}"
        remedy = "modprobe nf_conntrack_netlink"
        return [lacking(NODE, "conntrack", detail, remedy, Grade.WARNING)]
    return [ok(NODE, "conntrack", "flows can be listed, and stale ones forgotten")]


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
    made = {plan.mode.name: _made(plan, machine.release) for plan in plans}
    names = {mode: {each.name for each in sysctls.wanted} for mode, sysctls in made.items()}
    operators = [name for family in machine.families for name in OPERATORS[family]]
    yield from operator_findings(host.readings(operators), devices, names)
    for mode, sysctls in made.items():
        yield from mode_findings(mode, sysctls, host.readings(names[mode]), root=root)


def _made(plan: Plan, release: str) -> Sysctls:
    """The settings of a mode, on this node as far as the configuration alone says."""
    node = NodeState("")
    nodes = {family: node_view(plan.config, Gates(), family, node) for family in Family}
    return plan.mode.sysctls(plan.config, nodes, release)


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
