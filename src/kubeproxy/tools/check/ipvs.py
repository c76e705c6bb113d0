"""The trial of ipvs mode: a virtual server, a dummy device, its sets and its rules."""

import errno
from collections.abc import Sequence

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family, Protocol, family_of
from kubeproxy.dataplane.ipvs.names import Set
from kubeproxy.dataplane.ipvs.rules import JUMPS, facts_of, restore_text, tables
from kubeproxy.dataplane.ipvs.sets import creation
from kubeproxy.dataplane.leftovers import DEVICE
from kubeproxy.linux import ipset
from kubeproxy.linux.ipset import IpsetFailed
from kubeproxy.linux.ipvs import Ipvs, IpvsMissing
from kubeproxy.linux.links import ensure_dummy
from kubeproxy.linux.netlink.ipvs import AddServer, ServerKey, VirtualServer
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.tools import find
from kubeproxy.tools.check.finding import Finding, State, Topic, lacking, ok
from kubeproxy.tools.check.iptables import has_programs, restored
from kubeproxy.tools.check.judge import one_will_do
from kubeproxy.tools.check.modules import (
    DUMMY,
    Modules,
    harmless,
    schedulers,
    unloaded_dummy,
    without_ip_vs,
)
from kubeproxy.tools.check.sample import sample_node

_SERVER = {
    Family.IPV4: ServerKey(Protocol.TCP, "192.0.2.11", 80),
    Family.IPV6: ServerKey(Protocol.TCP, "2001:db8::11", 80),
}


class Means(msgspec.Struct, frozen=True):
    """What the trial depends on."""

    families: tuple[Family, ...]
    scheduler: str
    masquerade_bit: int
    modules: Modules


def written(means: Means) -> list[Finding]:
    """Write what ipvs mode writes. For a scratch namespace."""
    modules = means.modules
    try:
        with Ipvs() as ipvs:
            ipvs.servers(Family.IPV4)
    except IpvsMissing:
        first, is_loaded = [without_ip_vs(modules, means.scheduler)], False
    except Refused as error:
        first, is_loaded = [_not_allowed(error)], True
    else:
        first, is_loaded = _servers(means), True
    return [
        *first,
        *schedulers(modules),
        unloaded_dummy(modules) if modules.might_load(DUMMY) else _dummy(),
        *_sets_and_rules(means, has_ip_vs=is_loaded),
    ]


def _servers(means: Means) -> list[Finding]:
    """Virtual servers of each family, with the scheduler."""
    what = "ip_vs"
    with Ipvs() as ipvs:
        try:
            ipvs.check(means.scheduler)
        except KernelError as error:
            remedy = f"modprobe ip_vs_{means.scheduler}, or set ipvs.scheduler to another"
            missing = f"the kernel has no ipvs scheduler {means.scheduler}"
            detail = missing if isinstance(error, IpvsMissing) else str(error)
            return [lacking(Topic.IPVS, what, detail, remedy)]
        adds = [AddServer(_SERVER[f], VirtualServer(means.scheduler)) for f in means.families]
        refused = ipvs.run(adds)
    detail = f"a virtual server was made with the scheduler {means.scheduler}"
    findings = [ok(Topic.IPVS, what, detail)]
    findings += [
        lacking(
            Topic.IPVS,
            f"{what} for {family_of(add.key.address).value}",
            f"the family is not served: {error}",
            "use a kernel that has it, or nftables",
            State.WARNING,
        )
        for add, error in refused.items()
        if isinstance(add, AddServer)
    ]
    return findings


def _not_allowed(error: Refused) -> Finding:
    """ip_vs lets nobody try it but the machine's own root: not even the root of a container."""
    if error.errno != errno.EPERM:
        return lacking(Topic.IPVS, "ip_vs", str(error), "choose nftables")
    return lacking(
        Topic.IPVS,
        "ip_vs",
        "the kernel has it; only root may try it",
        "run this check as root",
        State.UNKNOWN,
    )


def _dummy() -> Finding:
    what = "dummy device"
    try:
        ensure_dummy(DEVICE)
    except Refused as error:
        missing = error.errno == errno.EOPNOTSUPP
        detail = "the kernel has no dummy devices" if missing else str(error)
        return lacking(Topic.IPVS, what, detail, "use a kernel that has them, or choose nftables")
    return ok(Topic.IPVS, what, f"{DEVICE} was made")


def _sets_and_rules(means: Means, *, has_ip_vs: bool) -> Sequence[Finding]:
    """The sets of all families, then the rules that look into them."""
    findings = []
    if find("ipset") is None:
        detail = "it is not installed, or not in PATH"
        return [lacking(Topic.IPVS, "ipset", detail, "install ipset, or choose nftables")]
    try:
        why = ipset.unfit(ipset.version())
    except IpsetFailed as error:
        why = str(error)
    if why:
        return [lacking(Topic.IPVS, "ipset", why, "install a newer one, or choose nftables")]
    for family in means.families:
        try:
            ipset.restore(creation({}, family))
        except IpsetFailed as error:
            remedy = "modprobe ip_set and its types (ip_set_hash_*), or choose nftables"
            return [lacking(Topic.IPVS, "ipset", str(error), remedy)]
        if has_programs(family):
            # The match `ipvs` loads ip_vs, where that is a module.
            denials = (_SERVER[family],) if has_ip_vs else ()
            facts = facts_of(sample_node(family), means.masquerade_bit, frozenset(Set), denials)
            text = restore_text(tables(facts), JUMPS)
            findings.append(restored(Topic.IPVS, family, harmless(text, means.modules)))
    sets = ok(Topic.IPVS, "ipset", f"{len(Set)} sets a family were made")
    return [sets, *one_will_do(findings, "the family is not served")]
