"""Removes what kube-proxy left in the kernel, in whatever mode it ran and whoever wrote it.

Looks at the kernel first: the system's tools are run only where there is something for them, so
a machine without them, or without the kernel modules, is no error. One step that fails keeps no
other from being done.
"""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from kubeproxy import klog
from kubeproxy.dataplane.leftovers import (
    DEVICE,
    TABLES,
    chain_removal,
    is_own_chain,
    own_servers,
    own_sets,
)
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.expressions import NFPROTO
from kubeproxy.dataplane.nftables.program import TABLE
from kubeproxy.errors import KernelError
from kubeproxy.inet import Family
from kubeproxy.kernel import ipset
from kubeproxy.kernel.dummy import delete_dummy, device_addresses
from kubeproxy.kernel.ipvs import Ipvs
from kubeproxy.kernel.nfnetlink import Nfnetlink, Refused
from kubeproxy.kernel.tools import Backend, find, find_iptables, run
from kubeproxy.netlink.ipvs import DeleteServer
from kubeproxy.netlink.message import Message, attributes
from kubeproxy.netlink.nfnetlink import NFGENMSG, NFT_MSG_GETCHAIN
from kubeproxy.table.node import Mode

_PROGRAM = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
_NFT_FAMILY = {Family.IPV4: "ip", Family.IPV6: "ip6"}
_LEGACY_TABLES = {
    Family.IPV4: Path("/proc/net/ip_tables_names"),
    Family.IPV6: Path("/proc/net/ip6_tables_names"),
}
_VIRTUAL_SERVERS = Path("/proc/net/ip_vs")
_IP_SET_MODULE = Path("/sys/module/ip_set")
_LOCK_SECONDS = "5"

# Without nfnetlink, and without nf_tables: of a message that is no batch, nfnetlink says EINVAL.
_NOT_IN_THIS_KERNEL = {errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL}


class NotAllRemoved(KernelError):
    """Something could not be removed; what could be is gone."""


class _Record:
    """What was removed and what could not be, so far."""

    def __init__(self) -> None:
        self.removed: list[str] = []
        self.failed: list[str] = []

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
    return record.conclude()


def remove_other_modes(mode: Mode) -> None:
    """Remove what modes that cannot live beside this one left, as well as that goes.

    Upstream's modes iptables and ipvs leave each other alone, and so do we.
    """
    record = _Record()
    try:
        has_nftables = _look_for_nftables()
        if mode is Mode.NFTABLES:
            _remove_iptables(record, has_nftables=has_nftables)
            _remove_ipvs(record)
        elif has_nftables:
            _remove_nftables(record)
        record.conclude()
    except KernelError as error:
        klog.warning("Rules of another mode remain", err=error)


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
            if _content(_LEGACY_TABLES[family]):
                _remove_chains(record, family, Backend.LEGACY)
        with record.step():
            if has_nftables and any(map(is_own_chain, nft_chains(family))):
                _remove_chains(record, family, Backend.NFT)


def _remove_chains(record: _Record, family: Family, backend: Backend) -> None:
    program = _PROGRAM[family]
    save = find_iptables(f"{program}-save", backend)
    restore = find_iptables(f"{program}-restore", backend)
    if save is None or restore is None:
        raise KernelError(
            f"the kernel has {program} tables of the {backend.value} kind, and there is no "
            f"{program}-{backend.value}-save and -restore to remove kube-proxy's chains from "
            "them: install iptables"
        )
    removal = chain_removal(run([save]))
    for chain in removal.kept:
        klog.warning(
            "Chain stays, because rules of others lead to it", chain=chain, program=program
        )
    if removal.text:
        run([restore, "-w", _LOCK_SECONDS, "--noflush"], removal.text)
        record.note(f"{removal.chains} {program} chains ({backend.value})")


def _remove_ipvs(record: _Record) -> None:
    """Remove virtual servers, device and sets; after the chains, whose rules use the sets."""
    has_ipset = _IP_SET_MODULE.exists() and find("ipset") is not None
    sets: tuple[str, ...] = ()
    with record.step():
        if has_ipset:
            sets = own_sets(ipset.names())
    with record.step():
        _remove_servers(record, ipset.save() if sets else "")
    with record.step():
        if delete_dummy(DEVICE):
            record.note(f"device {DEVICE}")
            if not has_ipset:
                raise KernelError("the ipsets KUBE-* may remain: install ipset to remove them")
    for name in sets:
        with record.step():
            ipset.destroy(name)
            record.note(f"ipset {name}")


def _remove_servers(record: _Record, saved_sets: str) -> None:
    """Remove the virtual servers that kube-proxy's sets and device know; others' stay."""
    if not _VIRTUAL_SERVERS.exists():
        return
    with Ipvs() as ipvs:
        for family in Family:
            bound = device_addresses(DEVICE, family)
            own = own_servers(ipvs.servers(family), saved_sets, bound)
            refused = ipvs.run([DeleteServer(key) for key in own])
            removed = len(own) - len(refused)
            if removed:
                record.note(f"{removed} {family.value} virtual servers")
            for error in refused.values():
                if error.errno != errno.ESRCH:
                    raise error


def nft_chains(family: Family) -> tuple[str, ...]:
    """The names of all chains in the tables that `iptables-nft` uses, kube-proxy's and others."""
    with Nfnetlink() as netfilter:
        chains = map(_chain_in, netfilter.dump(NFT_MSG_GETCHAIN, NFPROTO[family]))
        return tuple(name for table, name in chains if table in TABLES)


def _chain_in(message: Message) -> tuple[str, str]:
    """The table and the name of the chain that a message tells of."""
    found = attributes(message.payload[NFGENMSG.size :])
    table, chain = (found.get(kind, b"").rstrip(b"\0").decode(errors="replace") for kind in (1, 3))
    return table, chain


def _content(file: Path) -> str:
    """What a file of the kernel says; "" when the kernel lacks what it is about."""
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise KernelError(f"cannot read {file}: {error.strerror}") from error
