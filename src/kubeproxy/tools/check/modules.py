"""Kernel modules: which there are, and what it means that one is not loaded.

Most of them the kernel loads by itself when they are asked for, and that does no harm. The two
that change something on the node, by being there, are never asked for.
"""

import re
from collections.abc import Iterator

import msgspec

from kubeproxy.tools.check.finding import Finding, State, Topic, lacking, ok

IP_VS = "ip_vs"
DUMMY = "dummy"
"""Makes a device dummy0 when it is loaded."""
BRIDGE = "br_netfilter"
"""Has the packets of every bridge of the node filtered."""

# kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/lib/libcrc32c.ko.xz
_LINE = re.compile(r"^(?:\S*/)?([^/:\s]+)\.ko\b", re.MULTILINE)
_SCHEDULER = re.compile(r"ip_vs_(?!ftp$|pe_sip$)(\w+)")


class Modules(msgspec.Struct, frozen=True):
    """What there is.

    `available` are the modules that could be loaded, None where that cannot be seen; `present`
    are those in the kernel now. `loads` says that the proxy could load one by itself.
    """

    available: frozenset[str] | None = None
    present: frozenset[str] = frozenset()
    loads: bool = False

    def might_load(self, name: str) -> bool:
        """Whether the kernel, asked for what the module does, could load it."""
        return name not in self.present and (self.available is None or name in self.available)


def modules_in(listing: str) -> frozenset[str]:
    """The names in `modules.dep` or `modules.builtin`, spelled as `lsmod` spells them."""
    return frozenset(name.replace("-", "_") for name in _LINE.findall(listing))


def without_ip_vs(modules: Modules, scheduler: str) -> Finding:
    """That the kernel has no ip_vs now, and whether it could have."""
    wanted = (IP_VS, f"{IP_VS}_{scheduler}")
    load = f"modprobe {' '.join(wanted)}"
    if modules.available is None:
        detail = "the kernel has no ip_vs, and its list of modules is not here"
        return lacking(Topic.IPVS, IP_VS, detail, f"{load} on the node, or choose nftables")
    for name in wanted:
        if name not in modules.available:
            remedy = f"use a kernel that has it (then {load}), or choose nftables"
            return lacking(Topic.IPVS, IP_VS, f"the kernel has no {name}", remedy)
    if modules.loads:
        detail = f"a module that is not loaded; the proxy does that, or `{load}`"
        return ok(Topic.IPVS, IP_VS, detail)
    return lacking(
        Topic.IPVS,
        IP_VS,
        "a module that is not loaded, and this process may not load it",
        f"{load} on the node, and in /etc/modules-load.d",
    )


def unloaded_dummy(modules: Modules) -> Finding:
    """That the kernel might load dummy devices, which is not tried."""
    what = "dummy device"
    if modules.available is None:
        detail = "not loaded, and the kernel's list of modules is not here"
        return lacking(Topic.IPVS, what, detail, "modprobe dummy on the node", State.UNKNOWN)
    return ok(Topic.IPVS, what, "a module that is not loaded; the kernel does that")


def schedulers(modules: Modules) -> Iterator[Finding]:
    """What may stand in `ipvs.scheduler`; nothing where only those in use could be told."""
    if modules.available is None:
        return
    known = modules.present | modules.available
    found = sorted(match[1] for match in map(_SCHEDULER.fullmatch, known) if match)
    if found:
        yield ok(Topic.IPVS, "schedulers", ", ".join(found))


def harmless(rules: str, modules: Modules) -> str:
    """The rules but for those that have the kernel load br_netfilter."""
    if not modules.might_load(BRIDGE):
        return rules
    return "".join(line for line in rules.splitlines(keepends=True) if "-m physdev" not in line)
