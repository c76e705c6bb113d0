"""The trial of ipvs mode: a virtual server, a dummy device, its sets and its rules."""

import errno
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.dataplane.ipvs.leftovers import chain_leftovers, leftovers, own_sets
from kubeproxy.dataplane.ipvs.modules import (
    DUMMY,
    harmless,
    schedulers,
    unloaded_dummy,
    without_ip_vs,
)
from kubeproxy.dataplane.ipvs.names import IpSet
from kubeproxy.dataplane.ipvs.rules import JUMPS, restore_text, tables
from kubeproxy.dataplane.ipvs.sets import creation
from kubeproxy.dataplane.ipvs.settings import DEVICE, IpvsSettings
from kubeproxy.dataplane.leftovers import Leftover
from kubeproxy.dataplane.preflight import (
    Finding,
    Grade,
    Machine,
    NotInstalled,
    Scan,
    lacking,
    ok,
    one_will_do,
    unfinished,
)
from kubeproxy.dataplane.sample import sample_node
from kubeproxy.dataplane.xtables_check import has_programs, restored
from kubeproxy.linux import ipset
from kubeproxy.linux.ipset import IpsetFailed
from kubeproxy.linux.ipvs import Ipvs, IpvsMissing
from kubeproxy.linux.links import ensure_dummy
from kubeproxy.linux.netlink.ipvs import AddServer, ServerKey, VirtualServer
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.tools import find

_TOPIC = "ipvs"
_VIRTUAL_SERVERS = Path("/proc/net/ip_vs")
_IP_SET_MODULE = Path("/sys/module/ip_set")
_SERVER = {
    Family.IPV4: ServerKey(Protocol.TCP, "192.0.2.11", 80),
    Family.IPV6: ServerKey(Protocol.TCP, "2001:db8::11", 80),
}


def trial(settings: IpvsSettings, machine: Machine) -> list[Finding]:
    """Write what ipvs mode writes. For a scratch namespace."""
    modules = machine.modules
    try:
        with Ipvs() as ipvs:
            ipvs.servers(Family.IPV4)
    except IpvsMissing:
        first, is_loaded = [without_ip_vs(modules, settings.scheduler)], False
    except Refused as error:
        first, is_loaded = [_not_allowed(error)], True
    else:
        first, is_loaded = _servers(settings.scheduler, machine.families), True
    return [
        *first,
        *schedulers(modules),
        unloaded_dummy(modules) if modules.might_load(DUMMY) else _dummy(),
        *_sets_and_rules(settings, machine, has_ip_vs=is_loaded),
    ]


def _servers(scheduler: str, families: Iterable[Family]) -> list[Finding]:
    """Virtual servers of each family, with the scheduler."""
    what = "ip_vs"
    with Ipvs() as ipvs:
        try:
            ipvs.check(scheduler)
        except KernelError as error:
            remedy = f"modprobe ip_vs_{scheduler}, or set ipvs.scheduler to another"
            missing = f"the kernel has no ipvs scheduler {scheduler}"
            detail = missing if isinstance(error, IpvsMissing) else str(error)
            return [lacking(_TOPIC, what, detail, remedy)]
        adds = [AddServer(_SERVER[f], VirtualServer(scheduler)) for f in families]
        refused = ipvs.run(adds)
    detail = f"a virtual server was made with the scheduler {scheduler}"
    findings = [ok(_TOPIC, what, detail)]
    findings += [
        lacking(
            _TOPIC,
            f"{what} for {family_of(add.key.address).value}",
            f"the family is not served: {error}",
            "use a kernel that has it, or nftables",
            Grade.WARNING,
        )
        for add, error in refused.items()
        if isinstance(add, AddServer)
    ]
    return findings


def _not_allowed(error: Refused) -> Finding:
    """Only the root of the machine may try ip_vs: not even the root of a container."""
    if error.errno != errno.EPERM:
        return lacking(_TOPIC, "ip_vs", str(error), "choose nftables")
    return lacking(
        _TOPIC,
        "ip_vs",
        "the kernel has it; only root may try it",
        "run this check as root",
        Grade.UNTRIED,
    )


def _dummy() -> Finding:
    what = "dummy device"
    try:
        ensure_dummy(DEVICE)
    except Refused as error:
        missing = error.errno == errno.EOPNOTSUPP
        detail = "the kernel has no dummy devices" if missing else str(error)
        return lacking(_TOPIC, what, detail, "use a kernel that has them, or choose nftables")
    return ok(_TOPIC, what, f"{DEVICE} was made")


def _sets_and_rules(
    settings: IpvsSettings, machine: Machine, *, has_ip_vs: bool
) -> Sequence[Finding]:
    """The sets of all families, then the rules that look into them."""
    findings = []
    if find("ipset") is None:
        detail = "it is not installed, or not in PATH"
        return [lacking(_TOPIC, "ipset", detail, "install ipset, or choose nftables")]
    try:
        why = ipset.unfit(ipset.version())
    except IpsetFailed as error:
        if not error.ended:
            return [unfinished(_TOPIC, "ipset", error)]
        why = str(error)
    if why:
        return [lacking(_TOPIC, "ipset", why, "install a newer one, or choose nftables")]
    for family in machine.families:
        try:
            ipset.restore(creation({}, family))
        except IpsetFailed as error:
            if not error.ended:
                return [unfinished(_TOPIC, "ipset", error)]
            remedy = "modprobe ip_set and its types (ip_set_hash_*), or choose nftables"
            return [lacking(_TOPIC, "ipset", str(error), remedy)]
        if has_programs(family):
            # The match `ipvs` loads ip_vs, where that is a module.
            denials = (_SERVER[family],) if has_ip_vs else ()
            node, every = sample_node(family), frozenset(IpSet)
            rules = tables(node, settings.masquerade_bit, every, denials)
            text = restore_text(rules, JUMPS)
            findings.append(restored(_TOPIC, family, harmless(text, machine.modules)))
    sets = ok(_TOPIC, "ipset", f"{len(IpSet)} sets a family were made")
    return [sets, *one_will_do(findings, "the family is not served")]


def seen(scan: Scan) -> Iterator[Leftover]:
    """What there is of ipvs mode, and virtual servers of others."""
    yield from chain_leftovers(scan.chains, scan.kind)
    none: tuple[str, ...] = ()
    sets = scan.at("ipsets", partial(_sets, administers=scan.administers), none)
    servers = scan.at("virtual servers", _server_count, 0)
    yield from leftovers(sets, servers, has_device=DEVICE in scan.devices)


def _sets(*, administers: bool) -> tuple[str, ...]:
    if not _IP_SET_MODULE.exists():
        return ()
    if not administers:
        raise PermissionError
    found = own_sets(ipset.names())
    if found and find("ipset") is None:
        raise NotInstalled("ipset")
    return found


def _server_count() -> int:
    """The virtual servers below three lines of headings; lines with arrows are real servers."""
    lines = _VIRTUAL_SERVERS.read_text().splitlines()[3:]
    return sum(not line.lstrip().startswith("->") for line in lines)
