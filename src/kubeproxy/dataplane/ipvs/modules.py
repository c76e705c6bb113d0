"""The kernel modules of ipvs mode: what it means that one is not loaded.

Most of them the kernel loads by itself when they are needed, and that does no harm. Two change
something on the node when they are loaded; a trial never causes that.
"""

import re
from collections.abc import Iterator

from kubeproxy.dataplane.preflight import BRIDGE, Finding, Grade, Modules, lacking, ok

IP_VS = "ip_vs"
DUMMY = "dummy"
"""Makes a device dummy0 when it is loaded."""

_TOPIC = "ipvs"
_SCHEDULER = re.compile(r"ip_vs_(?!ftp$|pe_sip$)(\w+)")


def without_ip_vs(modules: Modules, scheduler: str) -> Finding:
    """The kernel has no ip_vs now; whether it could have it."""
    wanted = (IP_VS, f"{IP_VS}_{scheduler}")
    load = f"modprobe {' '.join(wanted)}"
    if modules.available is None:
        detail = "the kernel has no ip_vs, and its list of modules is not here"
        return lacking(_TOPIC, IP_VS, detail, f"{load} on the node, or choose nftables")
    for name in wanted:
        if name not in modules.available:
            remedy = f"use a kernel that has it (then {load}), or choose nftables"
            return lacking(_TOPIC, IP_VS, f"the kernel has no {name}", remedy)
    if modules.loads:
        detail = f"a module that is not loaded; the proxy does that, or `{load}`"
        return ok(_TOPIC, IP_VS, detail)
    return lacking(
        _TOPIC,
        IP_VS,
        "a module that is not loaded, and this process may not load it",
        f"{load} on the node, and in /etc/modules-load.d",
    )


def unloaded_dummy(modules: Modules) -> Finding:
    """The kernel might load dummy devices; that is not tried."""
    what = "dummy device"
    if modules.available is None:
        detail = "not loaded, and the kernel's list of modules is not here"
        return lacking(_TOPIC, what, detail, "modprobe dummy on the node", Grade.UNTRIED)
    return ok(_TOPIC, what, "a module that is not loaded; the kernel does that")


def schedulers(modules: Modules) -> Iterator[Finding]:
    """What may stand in `ipvs.scheduler`; none where the list of modules is unknown."""
    if modules.available is None:
        return
    known = modules.present | modules.available
    found = sorted(match[1] for match in map(_SCHEDULER.fullmatch, known) if match)
    if found:
        yield ok(_TOPIC, "schedulers", ", ".join(found))


def harmless(rules: str, modules: Modules) -> str:
    """The rules without those that make the kernel load br_netfilter."""
    if not modules.might_load(BRIDGE):
        return rules
    return "".join(line for line in rules.splitlines(keepends=True) if "-m physdev" not in line)
