"""Looks for what others keep in this kernel for Services. Reads only.

As `cleanup`, it asks the kernel first: the system's programs are run only where there is something
for them to list. What may not be looked at is said, and is not taken to be absent.
"""

import errno
import socket
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.cleanup import nft_chains
from kubeproxy.dataplane.leftovers import Chain, is_own_chain, own_sets
from kubeproxy.dataplane.nftables.dump import read_chains
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.program import TABLE
from kubeproxy.linux import ipset
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETCHAIN, NFT_MSG_GETTABLE, NFTA_TABLE_NAME
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import Backend, find, find_iptables, run
from kubeproxy.tools.check.rivals import HINT, Chains, Sightings

_PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
_LEGACY_TABLES = {
    Family.IPV4: Path("/proc/net/ip_tables_names"),
    Family.IPV6: Path("/proc/net/ip6_tables_names"),
}
_VIRTUAL_SERVERS = Path("/proc/net/ip_vs")
_IP_SET_MODULE = Path("/sys/module/ip_set")
_PINS = Path("/sys/fs/bpf")
_GLOBALS = _PINS / "tc/globals"
_SECONDS = 20.0  # a listing of hundreds of thousands of rules takes some

_AS_ROOT = "run this check as root, with CAP_NET_ADMIN"
T = TypeVar("T")


class _NotInstalled(Exception):
    """What would have to be installed to look."""


class _Look:
    """What was seen so far, and what could not be."""

    def __init__(self) -> None:
        self.unseen: dict[str, str] = {}

    def at(self, what: str, look: Callable[[], T], otherwise: T) -> T:
        """What a look finds; when it is refused, that is noted."""
        try:
            return look()
        except PermissionError:
            self.unseen[what] = _AS_ROOT
        except FileNotFoundError:
            pass  # the kernel lacks what the file would list
        except Refused as error:
            if error.errno == errno.EPERM:
                self.unseen[what] = _AS_ROOT
            # Otherwise the kernel has no nf_tables, and so no rules in it.
        except _NotInstalled as error:
            self.unseen[what] = f"install {error}"
        except KernelError as error:
            self.unseen[what] = f"see why this fails: {error}"
        return otherwise


def sightings(kind: str, *, administers: bool) -> Sightings:
    """What there is; `kind` is that of the system's iptables programs.

    Who does not administer this network namespace is told nothing of sets.
    """
    look = _Look()
    chains = (
        look.at("chains of iptables-nft", _nft_chains, Chains(Backend.NFT.value)),
        look.at("chains of iptables-legacy", _legacy_chains, Chains(Backend.LEGACY.value)),
    )
    return Sightings(
        tables=look.at("nftables tables", _tables, {}),
        chains=chains,
        sets=look.at("ipsets", partial(_sets, administers=administers), ()),
        servers=look.at("virtual servers", _servers, 0),
        devices=frozenset(name for _, name in socket.if_nameindex()),
        pins=look.at("eBPF maps of Cilium and Calico", _pins, None),
        kind=kind,
        unseen=look.unseen,
    )


def _tables() -> dict[Family, bool]:
    """The tables of nftables mode that exist, and whether it is this program that serves there.

    All hooks of ours have a slash in their names. Upstream, when it takes over, makes others and
    leaves of ours what no packet comes to.
    """
    found: dict[Family, bool] = {}
    with Nfnetlink() as netfilter:
        for family in Family:
            number = NFPROTO[family]
            try:
                netfilter.get(NFT_MSG_GETTABLE, number, text(NFTA_TABLE_NAME, TABLE))
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
                continue
            chains = read_chains(netfilter.dump(NFT_MSG_GETCHAIN, number), TABLE)
            hooks = [chain.name for chain in chains.values() if chain.hook]
            found[family] = bool(hooks) and all("/" in name for name in hooks)
    return found


def _nft_chains() -> Chains:
    return _found(Backend.NFT, {family: nft_chains(family) for family in Family})


def _legacy_chains() -> Chains:
    saved = {family: _legacy_listing(family) for family in Family}
    return _found(Backend.LEGACY, {family: tuple(_listed(saved[family])) for family in saved})


def _found(backend: Backend, chains: Mapping[Family, tuple[Chain, ...]]) -> Chains:
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
    program = _PROGRAM[family]
    save = find_iptables(f"{program}-save", Backend.LEGACY)
    if save is None:
        raise _NotInstalled(f"iptables: there is no {program}-legacy-save to list them with")
    return run([save], seconds=_SECONDS)


def _listed(saved: str) -> Iterator[Chain]:
    table = ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            yield Chain(table, line[1:].split(" ", 1)[0])


def _has(family: Family, backend: Backend) -> bool:
    program = _PROGRAM[family]
    return all(find_iptables(f"{program}-{verb}", backend) for verb in ("save", "restore"))


def _sets(*, administers: bool) -> tuple[str, ...]:
    if not _IP_SET_MODULE.exists():
        return ()
    if not administers:
        raise PermissionError
    found = own_sets(ipset.names())
    if found and find("ipset") is None:
        raise _NotInstalled("ipset")
    return found


def _servers() -> int:
    """How many virtual servers are listed, below three lines of headings; arrows are others."""
    lines = _VIRTUAL_SERVERS.read_text().splitlines()[3:]
    return sum(not line.lstrip().startswith("->") for line in lines)


def _pins() -> tuple[str, ...] | None:
    """The names of eBPF maps; None where they would not be seen, as in most containers."""
    if not _PINS.is_mount():
        return None
    list(_PINS.iterdir())  # without rights it is this that is refused
    return tuple(path.name for path in _GLOBALS.iterdir()) if _GLOBALS.is_dir() else ()
