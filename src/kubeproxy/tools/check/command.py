"""`kube-proxy check`: what this node has and lacks for each mode, before anything is installed.

Trials in scratch namespaces, and meanwhile a look at the node itself.
"""

import os
import socket
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import FieldError, KernelError
from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.node import NodeState
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.gates import Gates
from kubeproxy.config.kinds import DURATION, STRINGS
from kubeproxy.config.load import load
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.config.validate import validate
from kubeproxy.config.values import Duration, of_seconds
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import MODES, load_mode
from kubeproxy.dataplane.preflight import NODE, Finding, Grade, Machine, Modules, lacking, ok
from kubeproxy.dataplane.sysctls import Sysctls
from kubeproxy.dataplane.xtables_kind import use_kind_of_node
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
from kubeproxy.tools.check.scratch import Broken, TrialResult, outcomes, start
from kubeproxy.tools.check.sightings import sightings
from kubeproxy.tools.check.sysctls import (
    OPERATORS,
    mode_findings,
    operator_findings,
    proxy_findings,
)
from kubeproxy.tools.check.view import screen
from kubeproxy.tools.command import OUTPUT, Command, note, print_answer

NOT_POSSIBLE: Final = 1
NOT_KNOWN: Final = 2

_NO_SCRATCH = (
    "run this check as root on the node; without root, user namespaces must be allowed (sysctl"
    " user.max_user_namespaces; on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; in a"
    " container also its seccomp profile)"
)
_SLOW: Final = "run this check again when the node has less to do, or with a longer --timeout"
_AFTERWARDS: Final = """
Without --mode, --proxy-mode and --config every mode is judged. Nothing on the node is changed.

Exit codes: 0 when the mode, or one of them, would work here; 1 when not, and for mistakes in the
command line; 2 when it is not known: something that a mode needs could not be tried.
"""
_MODE: Final = Flag(
    "mode",
    STRINGS,
    (),
    f"Judge this mode: {', '.join(MODES)}. Several with commas between them, or given again."
    " Wins over --proxy-mode and over the mode in the config file.",
)
_TIMEOUT: Final = Flag(
    "timeout",
    DURATION,
    of_seconds(120),
    "How long to wait for the trials, which take a fraction of a second where nothing else runs.",
)

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
    """Judge the modes that the command line or its config file names; all when neither does."""
    timeout = parsed.value("timeout", Duration)
    if timeout <= Duration():
        raise FieldError("timeout", str(timeout), "must be above 0")
    report = survey([_plan(parsed, mode) for mode in _modes(parsed)], timeout.seconds)
    print_answer(parsed, report, partial(screen, report), cut=False)  # a remedy is never cut off
    if report.works:
        return 0
    return NOT_POSSIBLE if report.known else NOT_KNOWN


def _modes(parsed: Parsed) -> Iterable[str]:
    """The modes to judge; "" is the configured one."""
    wanted = [str(each).strip() for each in parsed.value("mode", tuple)]
    wanted = list(dict.fromkeys(filter(None, wanted)))
    for name in wanted:
        if name not in MODES:
            raise FieldError("mode", name, f"must be one of {', '.join(MODES)}")
    configured = parsed.value("config", str) or parsed.value("proxy-mode", str)
    return wanted or (("",) if configured else MODES)


def _plan(parsed: Parsed, mode: str) -> Plan:
    loaded = load(parsed, MODES, mode)
    validate(loaded.config, loaded.gates, MODES)
    return Plan(load_mode(loaded.config.mode), loaded.config)


_OWN: Final = (_MODE, _TIMEOUT, OUTPUT)
COMMAND: Final = Command(
    "check",
    (*_OWN, *FLAGS),
    _run,
    _AFTERWARDS,
    listed=(*_OWN, *(replace(flag, group="Proxy") for flag in FLAGS if flag.name in _SHARED)),
    meant="mode",
    kernel=True,
)
main, usage_text = COMMAND.main, COMMAND.usage_text


def survey(plans: Sequence[Plan], seconds: float) -> Report:
    """Look at everything that matters for these modes; trials may take so long."""
    no_ipv6 = why_no_ipv6()
    rights = host.own_rights()
    machine = _machine((Family.IPV4,) if no_ipv6 else tuple(Family), rights)
    modes = [plan.mode for plan in plans]
    if any(mode.uses_iptables for mode in modes):
        use_kind_of_node()
    trials = {
        NODE: start(partial(_conntrack, machine.families)),
        **{p.mode.name: start(partial(p.mode.trial, p.config, machine)) for p in plans},
    }
    programs = host.programs(machine.families)
    seen = sightings(programs.kind, administers=rights.administers)
    tried = outcomes(trials, seconds, partial(_still_trying, seconds))
    without = f"only; IPv6: {no_ipv6[0].lower()}{no_ipv6[1:]}" if no_ipv6 else "and IPv6"
    findings = [
        ok(NODE, "IP families", f"IPv4 {without}"),
        *(finding for mode in modes for finding in mode.check(machine)),
        *right_findings(rights, legacy=programs.kind == "legacy"),
        *programs.findings,
        *_found(NODE, "conntrack", tried[NODE], Grade.UNKNOWN),
        *(each for mode in modes for each in _tried(mode, tried[mode.name], machine, rights)),
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


def _found(
    topic: str, what: str, outcome: TrialResult | Broken, refused: Grade = Grade.UNTRIED
) -> Sequence[Finding]:
    """What a trial found; `refused` is what it comes to that there is no namespace for it."""
    if isinstance(outcome, Broken):
        remedy = _SLOW if outcome.slow else "run this check again; if that stays so, report it"
        detail = f"the trial in a scratch namespace has no result: {outcome.why}"
        return [lacking(topic, what, detail, remedy, Grade.UNTRIED)]
    if not outcome.refused:
        return outcome.findings
    detail = f"could not be tried: a scratch network namespace is refused ({outcome.refused})"
    return [lacking(topic, what, detail, _NO_SCRATCH, refused)]


def _still_trying(seconds: float, topics: Collection[str]) -> None:
    names = ", ".join("connection tracking" if name == NODE else name for name in topics)
    note(f"still trying {names}; the limit is {seconds:g} s (--timeout)")


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
