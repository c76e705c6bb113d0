"""What others left or keep in this kernel for Services, and what becomes of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import filterfalse
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.leftovers import (
    DEVICE,
    is_chain_of_a_service,
    is_chain_of_userspace_mode,
)
from kubeproxy.table.node import Mode
from kubeproxy.tools.check.finding import Finding, State, Topic, lacking, ok

_CALICO_PIN = "cali_v4_nat_fe"
_CALICO_DEVICE = "bpfin.cali"
_CILIUM_DEVICE = "cilium_host"
_CILIUM_NODE_PORTS = "cilium_nodeport_neigh"
_KUBE_ROUTER_DEVICE = "kube-dummy-if"

# What the kubelet tells others by (KEP-3178).
HINT = "KUBE-IPTABLES-HINT"

# Chains that ipvs mode has, and no other.
_OF_IPVS = frozenset({"KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-IPVS-FILTER"})


class Chains(msgspec.Struct, frozen=True):
    """The chains of kube-proxy in one kind of iptables, nft or legacy.

    `has_hint` says that the kubelet uses this kind.
    `removable` says that the programs are there which can remove them.
    """

    kind: str
    own: tuple[str, ...] = ()
    has_hint: bool = False
    removable: bool = True


class Sightings(msgspec.Struct, frozen=True):
    """What there is. `tables` says of each family's table kube-proxy whether the program is ours.

    `pins` are names of eBPF maps, None where they could not be listed. `kind` is that of the
    system's iptables programs, "" where there are none. `unseen` says what could not be looked
    at, and what to do.
    """

    tables: Mapping[Family, bool] = {}
    chains: tuple[Chains, ...] = ()
    sets: tuple[str, ...] = ()
    servers: int = 0
    devices: frozenset[str] = frozenset()
    pins: tuple[str, ...] | None = ()
    kind: str = "nft"
    unseen: Mapping[str, str] = {}


class _Fate(NamedTuple):
    """What becomes of something when the proxy starts in a mode; with a remedy, when not well."""

    text: str
    remedy: str = ""


_Fates = Mapping[Mode, _Fate]

_REMOVED = _Fate("removed after the first sync")
_TAKEN = _Fate("taken over, without a gap")
_CLEAN_UP = "stop the old proxy and run `kube-proxy --cleanup` before the new one starts"


def rival_findings(seen: Sightings, modes: Collection[Mode]) -> list[Finding]:
    """What there is, and what becomes of it in these modes; one finding when there is nothing."""
    things = [*_tables(seen), *_chains(seen), *_ipvs(seen)]
    findings = [
        *(finding for thing in things for finding in _becoming(thing, modes)),
        *_kubelet(seen),
        *_cilium(seen),
        *_calico(seen),
        *_kube_router(seen.devices),
        *_unseen(seen.unseen),
    ]
    return findings or [ok(Topic.RIVALS, "rules of others", "none found")]


class _Thing(NamedTuple):
    """Something that was found, and what becomes of it in each mode."""

    what: str
    there: str
    fates: _Fates


def _becoming(thing: _Thing, modes: Collection[Mode]) -> Iterator[Finding]:
    """What goes well in one finding, and one for each thing to do."""
    fates = {mode: fate for mode, fate in thing.fates.items() if mode in modes}
    for remedy in sorted({fate.remedy for fate in fates.values()}):
        concerned = tuple(mode for mode, fate in fates.items() if fate.remedy == remedy)
        told: dict[str, list[str]] = {}
        for mode in concerned:
            told.setdefault(fates[mode].text, []).append(mode.value)
        said = [
            f"{' and '.join(names)} mode: {text}" if len(fates) > 1 else text
            for text, names in told.items()
        ]
        state = State.WARNING if remedy else State.OK
        detail = "; ".join((thing.there, *said))
        yield Finding(Topic.RIVALS, thing.what, state, detail, remedy, concerned)


def _unseen(unseen: Mapping[str, str]) -> Iterator[Finding]:
    """What could not be looked at, with one finding for each thing to do."""
    for remedy in dict.fromkeys(unseen.values()):
        things = ", ".join(what for what, advice in unseen.items() if advice == remedy)
        detail = f"could not be looked at: {things}"
        yield lacking(Topic.RIVALS, "rules of others", detail, remedy, State.UNKNOWN)


def _tables(seen: Sightings) -> Iterator[_Thing]:
    names = {Family.IPV4: "ip", Family.IPV6: "ip6"}
    for ours in sorted(set(seen.tables.values())):
        families = [names[family] for family, own in seen.tables.items() if own is ours]
        whose = "this program's" if ours else "another kube-proxy's"
        taken = (
            "taken over, and what differs is written" if ours else "replaced in one transaction"
        )
        yield _Thing(
            "nftables table kube-proxy",
            f"{whose}, {' and '.join(families)}",
            {Mode.NFTABLES: _Fate(taken), Mode.IPTABLES: _REMOVED, Mode.IPVS: _REMOVED},
        )


def _chains(seen: Sightings) -> Iterator[_Thing]:
    for chains in seen.chains:
        old = tuple(filter(is_chain_of_userspace_mode, chains.own))
        own = tuple(filterfalse(is_chain_of_userspace_mode, chains.own))
        of_mode: dict[Mode | None, tuple[str, ...]] = {None: old}
        if not _OF_IPVS.intersection(own):
            of_mode[Mode.IPTABLES] = own
        else:  # of those that both modes have, ipvs mode makes use
            of_mode[Mode.IPVS] = tuple(filterfalse(is_chain_of_a_service, own))
            of_mode[Mode.IPTABLES] = tuple(filter(is_chain_of_a_service, own))
        for mode, names in of_mode.items():
            if names:
                yield _own_chains(replace(chains, own=names), mode, seen.kind)


def _own_chains(chains: Chains, own: Mode | None, kind: str) -> _Thing:
    """The chains of one mode; None is userspace mode, which nobody takes over."""
    removed, clean_up = _REMOVED, _CLEAN_UP
    if not chains.removable:
        programs = f"iptables-{chains.kind}-save and -restore, and ip6tables' too"
        install = f"install iptables ({programs})"
        removed = _Fate("nothing here can remove them", install)
        clean_up = f"{install}; then {_CLEAN_UP}"
    kept, unused = _TAKEN, _Fate("those that are not used any more stay", clean_up)
    if not kind:
        kept = _Fate(f"taken over by iptables-{chains.kind}, once that is installed")
    elif chains.kind != kind:
        beside = f"they stay beside those of iptables-{kind}, and both are in force"
        kept = _Fate(beside, f"use iptables-{chains.kind} for the proxy too, or {clean_up}")
        unused = _Fate(beside, clean_up)
    return _Thing(
        f"iptables-{chains.kind} chains",
        f"{len(chains.own)} of {own.value if own else 'userspace'} mode",
        {
            Mode.NFTABLES: removed,
            **{mode: kept if mode is own else unused for mode in (Mode.IPTABLES, Mode.IPVS)},
        },
    )


def _ipvs(seen: Sightings) -> Iterator[_Thing]:
    """What ipvs mode leaves beside its chains; or virtual servers of somebody else."""
    has_device = DEVICE in seen.devices
    if seen.sets or has_device:
        parts = (
            f"ipsets KUBE-* ({len(seen.sets)})" if seen.sets else "",
            f"device {DEVICE}" if has_device else "",
            f"virtual servers ({seen.servers})" if seen.servers else "",
        )
        stays = "all stays, and the node answers for its addresses" if has_device else "all stays"
        yield _Thing(
            "leftovers of ipvs mode",
            ", ".join(filter(None, parts)),
            {Mode.NFTABLES: _REMOVED, Mode.IPTABLES: _Fate(stays, _CLEAN_UP), Mode.IPVS: _TAKEN},
        )
    elif seen.servers:
        alone = _Fate("left alone")
        deleted = _Fate("deleted, unless excluded", "name their ranges in ipvs.excludeCIDRs")
        yield _Thing(
            "virtual servers",
            f"{seen.servers} of somebody else",
            {Mode.NFTABLES: alone, Mode.IPTABLES: alone, Mode.IPVS: deleted},
        )


def _kubelet(seen: Sightings) -> Iterator[Finding]:
    """The kubelet leaves a chain in the kind of iptables that it uses, for others to follow."""
    kinds = [chains.kind for chains in seen.chains if chains.has_hint]
    if kinds and seen.kind and seen.kind not in kinds:
        finding = lacking(
            Topic.RIVALS,
            "kubelet",
            f"it uses iptables-{kinds[0]}, and the programs here are iptables-{seen.kind}",
            f"have the proxy use iptables-{kinds[0]} too: rules of both kinds do not see each"
            " other",
            State.WARNING,
        )
        yield replace(finding, modes=(Mode.IPTABLES, Mode.IPVS))


def _cilium(seen: Sightings) -> Iterator[Finding]:
    what = "Cilium"
    how = "cilium-dbg status | grep KubeProxyReplacement (in its pod) tells"
    if _has_pin(seen.pins, _CILIUM_NODE_PORTS):
        yield lacking(
            Topic.RIVALS,
            what,
            "it serves node ports itself, so it seems to replace kube-proxy: two would conflict",
            f"{how}; set kubeProxyReplacement: false there, or run no kube-proxy here",
            State.WARNING,
        )
    elif _CILIUM_DEVICE in seen.devices and seen.pins is None:
        yield lacking(
            Topic.RIVALS,
            what,
            "it is here; whether it replaces kube-proxy cannot be seen",
            how,
            State.UNKNOWN,
        )
    elif _CILIUM_DEVICE in seen.devices:
        yield ok(Topic.RIVALS, what, "it is here, and leaves Services to kube-proxy")


def _calico(seen: Sightings) -> Iterator[Finding]:
    if _has_pin(seen.pins, _CALICO_PIN) or _CALICO_DEVICE in seen.devices:
        yield lacking(
            Topic.RIVALS,
            "Calico's eBPF dataplane",
            "it serves Services itself, and may remove kube-proxy's rules: two would conflict",
            "set bpfEnabled: false in the FelixConfiguration, or run no kube-proxy here",
            State.WARNING,
        )


def _kube_router(devices: Collection[str]) -> Iterator[Finding]:
    if _KUBE_ROUTER_DEVICE in devices:
        yield lacking(
            Topic.RIVALS,
            "kube-router",
            f"its service proxy has the device {_KUBE_ROUTER_DEVICE}: two would conflict, and"
            " ipvs mode deletes its virtual servers",
            f"run it with --run-service-proxy=false, then `ip link delete {_KUBE_ROUTER_DEVICE}`",
            State.WARNING,
        )


def _has_pin(pins: Iterable[str] | None, prefix: str) -> bool:
    return any(pin.startswith(prefix) for pin in pins or ())
