"""What modes left, and what other programs have in this kernel for Services."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kubeproxy.dataplane.leftovers import Fate, Leftover
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import load_mode
from kubeproxy.dataplane.preflight import RIVALS, Finding, Grade, Scan, lacking, ok

_CALICO_PIN = "cali_v4_nat_fe"
_CALICO_DEVICE = "bpfin.cali"
_CILIUM_DEVICE = "cilium_host"
_CILIUM_NODE_PORTS = "cilium_nodeport_neigh"
_KUBE_ROUTER_DEVICE = "kube-dummy-if"


class Sightings(msgspec.Struct, frozen=True):
    """What there is: leftovers by the mode that made them, and what was seen besides.

    `pins` are names of eBPF maps, None where they could not be listed.
    """

    scan: Scan
    leftovers: Mapping[str, Sequence[Leftover]] = {}
    pins: tuple[str, ...] | None = ()


def rival_findings(seen: Sightings, modes: Sequence[Mode]) -> list[Finding]:
    """What there is, and what happens to it in these modes; one finding when there is nothing."""
    findings = [
        *(
            finding
            for owner, leftovers in seen.leftovers.items()
            for leftover in leftovers
            for finding in _fates(leftover, owner, modes)
        ),
        *_kubelet(seen.scan, modes),
        *_programs(seen),
        *_unseen(seen.scan.unseen),
    ]
    return findings or [ok(RIVALS, "rules of others", "none found")]


def _fates(leftover: Leftover, owner: str, modes: Sequence[Mode]) -> Iterator[Finding]:
    """One finding for all that is well, and one for each remedy."""
    shares = load_mode(owner).uses_iptables
    fates: dict[str, Fate] = {}
    for mode in modes:
        other = leftover.beside if shares and mode.uses_iptables else leftover.removed
        fates[mode.name] = leftover.own if mode.name == owner else other
    for remedy in sorted({fate.remedy for fate in fates.values()}):
        concerned = tuple(mode for mode, fate in fates.items() if fate.remedy == remedy)
        by_text: dict[str, list[str]] = {}
        for mode_name in concerned:
            by_text.setdefault(fates[mode_name].text, []).append(mode_name)
        texts = [
            f"{' and '.join(names)} mode: {text}" if len(fates) > 1 else text
            for text, names in by_text.items()
        ]
        state = Grade.WARNING if remedy else Grade.OK
        detail = "; ".join((leftover.there, *texts))
        yield Finding(RIVALS, leftover.what, state, detail, remedy, concerned)


def _unseen(unseen: Mapping[str, str]) -> Iterator[Finding]:
    """What could not be looked at, with one finding for each thing to do."""
    for remedy in dict.fromkeys(unseen.values()):
        things = ", ".join(what for what, advice in unseen.items() if advice == remedy)
        detail = f"could not be looked at: {things}"
        yield lacking(RIVALS, "rules of others", detail, remedy, Grade.UNKNOWN)


def _kubelet(scan: Scan, modes: Sequence[Mode]) -> Iterator[Finding]:
    """The kubelet leaves a chain in the kind of iptables that it uses, as a hint."""
    kinds = [chains.kind for chains in scan.chains if chains.has_hint]
    if kinds and scan.kind and scan.kind not in kinds:
        detail = f"it uses iptables-{kinds[0]}, and the programs here are iptables-{scan.kind}"
        rules = "rules of both kinds do not see each other"
        remedy = f"have the proxy use iptables-{kinds[0]} too: {rules}"
        finding = lacking(RIVALS, "kubelet", detail, remedy, Grade.WARNING)
        yield replace(finding, modes=tuple(mode.name for mode in modes if mode.uses_iptables))


def _programs(seen: Sightings) -> Iterator[Finding]:
    """Other programs that serve Services, by their devices and their eBPF maps."""
    devices, pins = seen.scan.devices, seen.pins
    how = "cilium-dbg status | grep KubeProxyReplacement (in its pod) shows it"
    if _has_pin(pins, _CILIUM_NODE_PORTS):
        detail = (
            "it serves node ports itself, so it seems to replace kube-proxy: two would conflict"
        )
        remedy = f"{how}; set kubeProxyReplacement: false there, or run no kube-proxy here"
        yield lacking(RIVALS, "Cilium", detail, remedy, Grade.WARNING)
    elif _CILIUM_DEVICE in devices and pins is None:
        detail = "it is here; whether it replaces kube-proxy cannot be seen"
        yield lacking(RIVALS, "Cilium", detail, how, Grade.UNKNOWN)
    elif _CILIUM_DEVICE in devices:
        yield ok(RIVALS, "Cilium", "it is here, and leaves Services to kube-proxy")
    if _has_pin(pins, _CALICO_PIN) or _CALICO_DEVICE in devices:
        detail = "it serves Services itself, and may remove kube-proxy's rules: two would conflict"
        remedy = "set bpfEnabled: false in the FelixConfiguration, or run no kube-proxy here"
        yield lacking(RIVALS, "Calico's eBPF dataplane", detail, remedy, Grade.WARNING)
    if _KUBE_ROUTER_DEVICE in devices:
        conflict = "two would conflict, and ipvs mode deletes its virtual servers"
        detail = f"its service proxy has the device {_KUBE_ROUTER_DEVICE}: {conflict}"
        remedy = (
            f"run it with --run-service-proxy=false, then `ip link delete {_KUBE_ROUTER_DEVICE}`"
        )
        yield lacking(RIVALS, "kube-router", detail, remedy, Grade.WARNING)


def _has_pin(pins: Iterable[str] | None, prefix: str) -> bool:
    return any(pin.startswith(prefix) for pin in pins or ())
