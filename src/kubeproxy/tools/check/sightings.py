"""Looks for what others keep in this kernel for Services. Reads only.

As `cleanup`, it asks the kernel first: the system's programs are run only where there is something
for them to list. What may not be looked at is said, and is not taken to be absent.
"""

import errno
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.modes import all_modes
from kubeproxy.dataplane.preflight import NotInstalled, Scan
from kubeproxy.dataplane.xtables_chains import HINT, ChainName, Chains, is_own_chain
from kubeproxy.dataplane.xtables_guard import nft_chains
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.tools import RuleKind, find_iptables, run
from kubeproxy.tools.check.rivals import Sightings

_LEGACY_TABLES = {
    Family.IPV4: Path("/proc/net/ip_tables_names"),
    Family.IPV6: Path("/proc/net/ip6_tables_names"),
}
_PINS = Path("/sys/fs/bpf")
_GLOBALS = _PINS / "tc/globals"
_SECONDS = 20.0  # a listing of hundreds of thousands of rules takes some


def sightings(kind: str, *, administers: bool) -> Sightings:
    """What there is; `kind` is that of the system's iptables programs.

    A process that does not administer this network namespace cannot see sets.
    """
    devices = frozenset(name for _, name in socket.if_nameindex())
    scan = Scan(kind, devices, administers=administers)
    scan.chains = (
        scan.at("chains of iptables-nft", _nft_chains, Chains(RuleKind.NFT.value)),
        scan.at("chains of iptables-legacy", _legacy_chains, Chains(RuleKind.LEGACY.value)),
    )
    leftovers = {mode.name: tuple(mode.leftovers(scan)) for mode in all_modes()}
    return Sightings(scan, leftovers, scan.at("eBPF maps of Cilium and Calico", _pins, None))


def _nft_chains() -> Chains:
    try:
        return _found(RuleKind.NFT, {family: nft_chains(family) for family in Family})
    except Refused as error:
        if error.errno == errno.EPERM:
            raise PermissionError from error
        return Chains(RuleKind.NFT.value)  # the kernel has no nf_tables


def _legacy_chains() -> Chains:
    saved = {family: _legacy_listing(family) for family in Family}
    return _found(RuleKind.LEGACY, {family: tuple(_listed(saved[family])) for family in saved})


def _found(backend: RuleKind, chains: Mapping[Family, tuple[ChainName, ...]]) -> Chains:
    """What there is of both families, and whether kube-proxy's could be removed."""
    own = {family: [c.name for c in chains[family] if is_own_chain(*c)] for family in chains}
    return Chains(
        backend.value,
        own=tuple(name for names in own.values() for name in names),
        has_hint=any(chain.name == HINT for found in chains.values() for chain in found),
        removable=all(_has(family, backend) for family in own if own[family]),
    )


def _legacy_listing(family: Family) -> str:
    try:
        has_tables = _LEGACY_TABLES[family].read_text()
    except FileNotFoundError:  # the kernel lacks that kind, or has not loaded it
        return ""
    if not has_tables:
        return ""
    program = PROGRAM[family]
    save = find_iptables(f"{program}-save", RuleKind.LEGACY)
    if save is None:
        raise NotInstalled(f"iptables: there is no {program}-legacy-save to list them with")
    return run([save], seconds=_SECONDS)


def _listed(saved: str) -> Iterator[ChainName]:
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            yield ChainName(table, line[1:].split(" ", 1)[0])


def _has(family: Family, backend: RuleKind) -> bool:
    program = PROGRAM[family]
    return all(find_iptables(f"{program}-{verb}", backend) for verb in ("save", "restore"))


def _pins() -> tuple[str, ...] | None:
    """The names of eBPF maps; None where they would not be seen, as in most containers."""
    if not _PINS.is_mount():
        return None
    list(_PINS.iterdir())  # without rights it is this that is refused
    return tuple(path.name for path in _GLOBALS.iterdir()) if _GLOBALS.is_dir() else ()
