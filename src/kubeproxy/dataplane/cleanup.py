"""Removes what kube-proxy left in the kernel, in whatever mode it ran and whoever wrote it.

Looks at the kernel first: the system's tools are run only where there is something for them, so
a machine without them, or without the kernel modules, is no error. One step that fails keeps no
other from being done.
"""

import contextlib
import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.iptables.setup import COUNTERS
from kubeproxy.dataplane.leftovers import (
    DEVICE,
    TABLES,
    Chain,
    Removal,
    chain_removals,
    deletion,
    is_kubelets_chain,
    is_own_chain,
    own_servers,
    own_sets,
)
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.program import TABLE
from kubeproxy.linux import ipset
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.legacytables import legacy_chains
from kubeproxy.linux.links import delete_dummy, device_addresses
from kubeproxy.linux.netlink.ipvs import DeleteServer
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import attributes_in
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfacct import delete_counters
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.linux.tools import Backend, ToolFailed, find, find_iptables, run
from kubeproxy.table.node import Mode

_PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
_NFT_FAMILY = {Family.IPV4: "ip", Family.IPV6: "ip6"}
_VIRTUAL_SERVERS = Path("/proc/net/ip_vs")
_IP_SET_MODULE = Path("/sys/module/ip_set")
_NFACCT_MODULE = Path("/sys/module/nfnetlink_acct")
_LOCK_SECONDS = "5"
_SHOWN = 10  # of things that may be thousands
_NEEDS = {
    Backend.LEGACY: "CAP_NET_ADMIN, CAP_NET_RAW and a writable /run/xtables.lock",
    Backend.NFT: "CAP_NET_ADMIN",
}

# Without nfnetlink, and without nf_tables: of a message that is no batch, nfnetlink says EINVAL.
_NOT_IN_THIS_KERNEL = {errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL}


class NotAllRemoved(KernelError):
    """Something could not be removed; what could be is gone."""


class _Record:
    """What was removed, what could not be, and what is not kube-proxy's, so far."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.failed: list[str] = []
        self.kubelets: dict[str, list[str]] = {}
        self.servers: list[str] = []

    def note(self, what: str) -> None:
        klog.info("Removed", what=what)
        self.removed.append(what)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """A failure inside is noted, and the next step is taken."""
        try:
            yield
        except KernelError as error:
            self.failed.append(str(error))

    def keep(self, program: str, kubelets: Iterable[Chain]) -> None:
        for chain in kubelets:
            self.kubelets.setdefault(program, []).append(f"{chain.table} {chain.name}")

    def tell_what_stays(self) -> None:
        """Say what looks as if it were kube-proxy's, and why it stays."""
        for program, chains in self.kubelets.items():
            klog.info(
                "Chains stay: they are the kubelet's. Where no kubelet runs, they go at a reboot",
                program=program,
                chains=", ".join(sorted(chains)),
            )
        if self.servers:
            klog.info(
                "Virtual servers stay: nothing tells that kube-proxy made them",
                count=len(self.servers),
                servers=", ".join(sorted(self.servers)[:_SHOWN]),
            )

    def conclude(self) -> tuple[str, ...]:
        if self.failed:
            raise NotAllRemoved(
                f"encountered an error while tearing down rules: {'; '.join(self.failed)}"
            )
        return tuple(self.removed)


def clean_up() -> tuple[str, ...]:
    """Remove everything, of every mode; what there was."""
    record = _Record()
    has_nftables = _look_for_nftables()
    if has_nftables:
        _remove_nftables(record)
    _remove_iptables(record, has_nftables=has_nftables)
    _remove_ipvs(record)
    record.tell_what_stays()
    return record.conclude()


def remove_other_modes(mode: Mode) -> tuple[str, ...]:
    """Remove what modes that cannot live beside this one left; why something of it remains.

    Upstream's modes iptables and ipvs leave each other alone, and so do we.
    """
    record = _Record()
    with record.step():
        has_nftables = _look_for_nftables()
        if mode is Mode.NFTABLES:
            _remove_iptables(record, has_nftables=has_nftables)
            _remove_ipvs(record)
        elif has_nftables:
            _remove_nftables(record)
    for reason in record.failed:
        klog.error(
            "Rules of another mode remain, and packets may follow them to endpoints that are"
            " gone: do what the error says and start kube-proxy anew, or restart the node",
            err=reason,
        )
    return tuple(record.failed)


def _look_for_nftables() -> bool:
    """Whether the kernel has nftables; an error when we may not ask, or change anything."""
    try:
        with Nfnetlink() as netfilter:
            netfilter.generation()
    except Refused as error:
        if error.errno in _NOT_IN_THIS_KERNEL:
            return False
        if error.errno == errno.EPERM:
            raise KernelError(
                "nothing was removed: that needs CAP_NET_ADMIN in this network namespace"
            ) from error
        raise
    return True


def _remove_nftables(record: _Record) -> None:
    for family in Family:
        with record.step(), Nfnetlink() as netfilter:
            try:
                netfilter.commit((delete_table(family, TABLE),))
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
            else:
                record.note(f"nftables table {_NFT_FAMILY[family]} {TABLE}")


def _remove_iptables(record: _Record, *, has_nftables: bool) -> None:
    for family in Family:
        with record.step():
            _remove_own(record, family, Backend.LEGACY, legacy_chains(family))
        with record.step():
            _remove_own(record, family, Backend.NFT, nft_chains(family) if has_nftables else ())
    if record.removed or _NFACCT_MODULE.exists():
        with record.step():
            for name in delete_counters(COUNTERS):
                record.note(f"nfacct counter {name}")


def _remove_own(
    record: _Record, family: Family, backend: Backend, names: Iterable[tuple[str, str]]
) -> None:
    """Remove kube-proxy's among these chains, by table and name; tools are run for no others."""
    chains = [Chain(*each) for each in names]
    if any(is_own_chain(*chain) for chain in chains):
        _remove_chains(record, family, backend)
    else:
        kubelets = [chain for chain in chains if is_kubelets_chain(*chain)]
        record.keep(f"{_PROGRAM[family]}-{backend.value}", kubelets)


def _remove_chains(record: _Record, family: Family, backend: Backend) -> None:
    program = f"{_PROGRAM[family]}-{backend.value}"
    stays = f"what kube-proxy left in the tables of {program} stays"
    save = find_iptables(f"{_PROGRAM[family]}-save", backend)
    restore = find_iptables(f"{_PROGRAM[family]}-restore", backend)
    if save is None or restore is None:
        raise KernelError(
            f"{stays}: there is no {program}-save and -restore to remove it with: install iptables"
        )
    try:
        saved = run([save])
    except ToolFailed as error:
        raise KernelError(f"{stays}: {error}; it needs {_NEEDS[backend]}") from error
    for removal in chain_removals(saved):
        record.keep(program, [Chain(removal.table, name) for name in removal.kubelets])
        _warn_of_kept(removal, program)
        with record.step():
            if removal.text:
                _restore(restore, removal.text)  # nothing is in force any more
                deleted = _delete_chains(record, removal, restore)
                record.note(f"{deleted} chains of {program}, table {removal.table}")


def _delete_chains(record: _Record, removal: Removal, restore: str) -> int:
    """Delete chains that are empty; how many. One that cannot be keeps no other from it."""
    failures = len(record.failed)
    try:
        _restore(restore, deletion(removal.table, removal.chains))
    except ToolFailed:
        for chain in removal.chains:
            with record.step():
                _restore(restore, deletion(removal.table, [chain]))
    return len(removal.chains) - (len(record.failed) - failures)


def _restore(program: str, text: str) -> None:
    run([program, "-w", _LOCK_SECONDS, "--noflush"], text)


def _warn_of_kept(removal: Removal, program: str) -> None:
    for kept in removal.kept:
        klog.warning(
            "Chain stays, because rules of others lead to it",
            program=program,
            table=removal.table,
            chain=kept.chain,
            rules="; ".join(kept.rules[:_SHOWN]),
        )


def _remove_ipvs(record: _Record) -> None:
    """Remove virtual servers, device and sets; after the chains, whose rules use the sets."""
    sets: tuple[str, ...] = ()
    saved = ""
    with record.step():
        sets = own_sets(ipset.names()) if _IP_SET_MODULE.exists() else ()
        saved = _members(sets) if sets else ""
    with record.step():
        _remove_servers(record, saved)
    with record.step():
        if delete_dummy(DEVICE):
            record.note(f"device {DEVICE}")
    with record.step():
        if saved:  # without, nobody would find the virtual servers again that these tell of
            _remove_sets(record, sets)


def _members(sets: tuple[str, ...]) -> str:
    """What is in the sets, as text."""
    if find("ipset") is None:
        raise KernelError(
            f"the sets {', '.join(sets)} stay, and virtual servers that only these tell of:"
            " there is no ipset to remove them with: install it"
        )
    return ipset.save(sets)


def _remove_sets(record: _Record, sets: tuple[str, ...]) -> None:
    """Destroy the sets, all at once if that goes; one that is in use keeps no other from it."""
    with contextlib.suppress(ipset.IpsetFailed):
        ipset.restore("".join(f"destroy {name}\n" for name in sets))
    for name in own_sets(ipset.names()):
        with record.step():
            _remove_set(name)
    removed = len(sets) - len(own_sets(ipset.names()))
    if removed:
        record.note(f"{removed} ipsets")


def _remove_set(name: str) -> None:
    try:
        ipset.destroy(name)
    except ipset.IpsetFailed as error:
        rules = _rules_with_set(name)
        if not rules:
            raise
        raise KernelError(
            f"the ipset {name} stays, because rules look into it: {'; '.join(rules[:_SHOWN])}"
        ) from error


def _rules_with_set(name: str) -> list[str]:
    """All rules that look into a set."""
    found = []
    for family in Family:
        for backend in Backend:
            save = find_iptables(f"{_PROGRAM[family]}-save", backend)
            lines = run([save]).splitlines() if save else []
            program = f"{_PROGRAM[family]}-{backend.value}"
            found += [f"{program} {line}" for line in lines if f"--match-set {name} " in line]
    return found


def _remove_servers(record: _Record, saved_sets: str) -> None:
    """Remove the virtual servers that kube-proxy's sets and device know; others' stay."""
    if not _VIRTUAL_SERVERS.exists():
        return
    with Ipvs() as ipvs:
        for family in Family:
            bound = device_addresses(DEVICE, family)
            servers = ipvs.servers(family)
            own = own_servers(servers, saved_sets, bound)
            record.servers += map(str, servers.keys() - set(own))
            refused = ipvs.run([DeleteServer(key) for key in own])
            removed = len(own) - len(refused)
            if removed:
                record.note(f"{removed} {family.value} virtual servers")
            for error in refused.values():
                if error.errno != errno.ESRCH:
                    raise error


def nft_chains(family: Family) -> tuple[Chain, ...]:
    """All chains in the tables that `iptables-nft` uses, kube-proxy's and others."""
    with Nfnetlink() as netfilter:
        chains = map(_chain_in, netfilter.dump(NFT_MSG_GETCHAIN, NFPROTO[family]))
        return tuple(chain for chain in chains if chain.table in TABLES)


def _chain_in(message: Message) -> Chain:
    """The chain that a message tells of."""
    found = attributes_in(message)
    named = (found.get(kind, b"") for kind in (NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME))
    return Chain(*(name.rstrip(b"\0").decode(errors="replace") for name in named))
