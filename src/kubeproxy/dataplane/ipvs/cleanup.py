"""Removes what ipvs mode leaves beside its chains: virtual servers, device and sets."""

import contextlib
import errno
from itertools import product
from pathlib import Path

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.leftovers import own_servers, own_sets
from kubeproxy.dataplane.ipvs.settings import DEVICE
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.xtables_text import PROGRAM
from kubeproxy.linux import ipset
from kubeproxy.linux.ipvs import Ipvs
from kubeproxy.linux.links import delete_dummy, device_addresses
from kubeproxy.linux.netlink.ipvs import DeleteServer
from kubeproxy.linux.tools import RuleKind, find, find_iptables, run

_VIRTUAL_SERVERS = Path("/proc/net/ip_vs")
_IP_SET_MODULE = Path("/sys/module/ip_set")
_SHOWN = 10  # of what may be thousands


def clean_up(cleanup: Cleanup) -> None:
    """Remove virtual servers, device and sets; the chains that use the sets are gone already."""
    sets: tuple[str, ...] = ()
    saved = ""
    with cleanup.step():
        sets = own_sets(ipset.names()) if _IP_SET_MODULE.exists() else ()
        saved = _members(sets) if sets else ""
    with cleanup.step():
        _remove_servers(cleanup, saved)
    with cleanup.step():
        if delete_dummy(DEVICE):
            cleanup.note(f"device {DEVICE}")
    with cleanup.step():
        if saved:  # these list the virtual servers that are ours
            _remove_sets(cleanup, sets)


def _members(sets: tuple[str, ...]) -> str:
    """What is in the sets, as text."""
    if find("ipset") is None:
        raise KernelError(
            f"the sets {', '.join(sets)} stay, and virtual servers that only these list:"
            " there is no ipset to remove them with: install it"
        )
    return ipset.save(sets)


def _remove_sets(cleanup: Cleanup, sets: tuple[str, ...]) -> None:
    """Destroy the sets, one by one where that fails for all together."""
    with contextlib.suppress(ipset.IpsetFailed):
        ipset.restore("".join(f"destroy {name}\n" for name in sets))
    for name in own_sets(ipset.names()):
        with cleanup.step():
            try:
                ipset.destroy(name)
            except ipset.IpsetFailed as error:
                rules = _rules_with_set(name)
                if not rules:
                    raise
                raise KernelError(
                    f"the ipset {name} stays, because rules use it: {'; '.join(rules[:_SHOWN])}"
                ) from error
    removed = len(sets) - len(own_sets(ipset.names()))
    if removed:
        cleanup.note(f"{removed} ipsets")


def _rules_with_set(name: str) -> list[str]:
    """All rules that use a set."""
    found = []
    for family, backend in product(Family, RuleKind):
        save = find_iptables(f"{PROGRAM[family]}-save", backend)
        lines = run([save]).splitlines() if save else []
        program = f"{PROGRAM[family]}-{backend.value}"
        found += [f"{program} {line}" for line in lines if f"--match-set {name} " in line]
    return found


def _remove_servers(cleanup: Cleanup, saved_sets: str) -> None:
    """Remove the virtual servers in kube-proxy's sets or on its device; those of others stay."""
    if not _VIRTUAL_SERVERS.exists():
        return
    others: list[str] = []
    with Ipvs() as ipvs:
        for family in Family:
            bound = device_addresses(DEVICE, family)
            servers = ipvs.servers(family)
            own = own_servers(servers, saved_sets, bound)
            others += map(str, servers.keys() - set(own))
            refused = ipvs.run([DeleteServer(key) for key in own])
            removed = len(own) - len(refused)
            if removed:
                cleanup.note(f"{removed} {family.value} virtual servers")
            for error in refused.values():
                if error.errno != errno.ESRCH:
                    raise error
    if others:
        cleanup.keep(
            "Virtual servers stay: nothing shows that kube-proxy made them",
            count=len(others),
            servers=", ".join(sorted(others)[:_SHOWN]),
        )
