"""Kernel settings as they are -> which the proxy will set, which it cannot, which you should."""

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.preflight import NODE, Finding, Grade, as_warnings, lacking, ok
from kubeproxy.dataplane.sysctls import Sysctl, Sysctls

FORWARD_IPV4 = "net.ipv4.ip_forward"
FORWARD_IPV6 = "net.ipv6.conf.all.forwarding"
RP_FILTER = "net.ipv4.conf.all.rp_filter"
BRIDGE_IPV4 = "net.bridge.bridge-nf-call-iptables"
BRIDGE_IPV6 = "net.bridge.bridge-nf-call-ip6tables"
OPERATORS = {
    Family.IPV4: (FORWARD_IPV4, RP_FILTER, BRIDGE_IPV4),
    Family.IPV6: (FORWARD_IPV6, BRIDGE_IPV6),
}

# Bridges of pods, as network plugins call them.
_POD_BRIDGES = frozenset({"cni0", "cbr0", "kube-bridge"})


class SysctlReading(msgspec.Struct, frozen=True):
    """A setting as it is: None where this kernel has none of that name.

    `writable` says that this process may set it, and `fixed` that it cannot be set from this
    network namespace.
    """

    value: int | None = None
    writable: bool = False
    fixed: bool = False


Readings = Mapping[str, SysctlReading]


def proxy_findings(
    topic: str, what: str, wanted: Iterable[Sysctl], readings: Readings, *, root: bool
) -> list[Finding]:
    """Settings that the proxy makes at its start, and ends without: one finding if all is well."""
    fine: list[str] = []
    unsure: list[str] = []
    findings: list[Finding] = []
    for setting in wanted:
        reading = readings.get(setting.name, SysctlReading())
        if setting.is_met(reading.value):
            fine.append(f"{_short(setting)} is {reading.value}")
        elif reading.value is None:
            findings.append(_absent(topic, setting))
        elif reading.writable:
            fine.append(f"{_short(setting)} is {reading.value} and will be {setting.value}")
        elif reading.fixed and reading.value > setting.value:
            fine.append(f"{_short(setting)} stays {reading.value}, as the machine has it")
        elif root or reading.fixed:
            findings.append(_not_settable(topic, setting, reading))
        else:
            unsure.append(f"{_short(setting)} is {reading.value} and should be {setting.value}")
    if unsure:
        detail = f"{', '.join(unsure)}: whether that can be set, only root sees"
        findings.insert(0, lacking(topic, what, detail, "run this check as root", Grade.UNKNOWN))
    if fine:
        findings.insert(0, ok(topic, what, ", ".join(fine)))
    return findings


def mode_findings(
    topic: str, sysctls: Sysctls, readings: Readings, *, root: bool
) -> tuple[Finding, ...]:
    """Settings that a mode makes. Those that are absent come with a module of the mode."""
    wanted = [each for each in sysctls.wanted if readings[each.name].value is not None]
    found = proxy_findings(topic, sysctls.purpose, wanted, readings, root=root)
    return as_warnings(found, sysctls.without) if sysctls.without else tuple(found)


def _absent(topic: str, setting: Sysctl) -> Finding:
    detail = f"should be {setting.value}, and this kernel has no such setting"
    remedy = f"load the kernel module that has it: modprobe nf_conntrack{_or_leave(setting)}"
    return lacking(topic, setting.name, detail, remedy)


def _not_settable(topic: str, setting: Sysctl, reading: SysctlReading) -> Finding:
    name, value = setting.name, setting.value
    detail = f"is {reading.value} and should be {value}"
    remedy = f"run `sysctl -w {name}={value}` on the host"
    if reading.fixed:
        detail += "; it belongs to the machine, not to this network namespace, and stays"
        return lacking(topic, name, detail, remedy, Grade.WARNING)
    remedy += ", or in a pod have a privileged init container run --init-only"
    detail += ", and cannot be set from here"
    return lacking(topic, name, detail, remedy + _or_leave(setting))


def _or_leave(setting: Sysctl) -> str:
    return f", or leave it alone with {setting.leave}" if setting.leave else ""


def _short(setting: Sysctl) -> str:
    return setting.name.rpartition(".")[2].removeprefix("nf_conntrack_")


def operator_findings(
    readings: Readings, devices: Iterable[str], made: Mapping[str, Collection[str]]
) -> list[Finding]:
    """Settings that services depend on; `made` has for each mode those that the mode makes."""
    return [
        *_forwarding(Family.IPV4, readings, made),
        *_forwarding(Family.IPV6, readings, made),
        *_rp_filter(readings),
        *_bridges(readings, _POD_BRIDGES.intersection(devices)),
    ]


def _value(readings: Readings, name: str) -> int | None:
    return readings[name].value if name in readings else None


def _forwarding(
    family: Family, readings: Readings, made: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    name = FORWARD_IPV4 if family is Family.IPV4 else FORWARD_IPV6
    value = _value(readings, name)
    if value is None:
        return
    finding = ok(NODE, name, f"is {value}: {family.value} packets to pods are forwarded")
    if not value:
        detail = f"is 0: {family.value} packets to pods, and to other nodes, are not forwarded"
        remedy = f"sysctl -w {name}=1, and in /etc/sysctl.d; many network plugins do it"
        if family is Family.IPV6:
            # With accept_ra=1, a node that forwards drops default routes that routers announced.
            first = "first accept_ra=2, where routers announce routes"
            remedy = f"if pods have IPv6: {remedy}; {first}"
        finding = lacking(NODE, name, detail, remedy, Grade.WARNING)
    yield replace(finding, modes=tuple(mode for mode in made if name not in made[mode]))


def _rp_filter(readings: Readings) -> Iterator[Finding]:
    if _value(readings, RP_FILTER) == 1:
        detail = (
            "is 1 (strict): on a node with several networks, packets of clients that are not"
            " answered through the interface they came by are dropped"
        )
        remedy = f"sysctl -w {RP_FILTER}=2 on such nodes"
        yield lacking(NODE, RP_FILTER, detail, remedy, Grade.WARNING)


def _bridges(readings: Readings, bridges: Iterable[str]) -> Iterator[Finding]:
    """Pods of one bridge reach each other without the node's rules, unless these say otherwise."""
    values = {name: _value(readings, name) for name in (BRIDGE_IPV4, BRIDGE_IPV6)}
    off = [name for name, value in values.items() if value == 0]
    what = "a pod that dials a Service and gets a pod of the same bridge has no answer"
    for name in off:
        remedy = f"sysctl -w {name}=1, unless pods are on no bridge"
        yield lacking(NODE, name, f"is 0: {what}", remedy, Grade.WARNING)
    loaded = any(value is not None for value in values.values())
    if loaded and not off:
        yield ok(NODE, "br_netfilter", "packets between pods of one bridge meet the rules")
    if not loaded and bridges:
        detail = f"not loaded, and there is the bridge {', '.join(sorted(bridges))}: {what}"
        remedy = "modprobe br_netfilter, and in /etc/modules-load.d"
        yield lacking(NODE, "br_netfilter", detail, remedy, Grade.WARNING)
