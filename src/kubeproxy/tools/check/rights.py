"""What this process may do -> what the proxy may, or would need."""

import re

import msgspec
from msgspec.structs import replace

from kubeproxy.dataplane.modes import all_modes
from kubeproxy.dataplane.preflight import NODE, Finding, Grade, lacking, ok

NET_ADMIN = 12
NET_RAW = 13
SYS_MODULE = 16

_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)


class Rights(msgspec.Struct, frozen=True):
    """The user and rights of this process; it `administers` a network that it may change."""

    uid: int
    capabilities: int
    administers: bool

    @property
    def is_root(self) -> bool:
        """Whether it is root, with or without capabilities."""
        return self.uid == 0

    def has(self, capability: int) -> bool:
        """Whether it has a capability."""
        return bool(self.capabilities >> capability & 1)

    @property
    def may_load_modules(self) -> bool:
        """Whether a proxy in its place may; unknown, and so assumed, when this is not root."""
        return self.has(SYS_MODULE) or not self.is_root

    def __str__(self) -> str:
        user = "root" if self.is_root else f"user {self.uid}"
        return user if self.administers else f"{user} without CAP_NET_ADMIN here"


def effective(status: str) -> int:
    """The effective capabilities in /proc/self/status."""
    found = _EFFECTIVE.search(status)
    return int(found[1], 16) if found else 0


def right_findings(rights: Rights, *, legacy: bool) -> list[Finding]:
    """The rights that modes need; `legacy` is the kind of the iptables programs."""
    if not rights.administers and not rights.is_root:
        detail = (
            f"user {rights.uid} may not look at the rules; the proxy runs as root, or with"
            " CAP_NET_ADMIN"
        )
        return [lacking(NODE, "rights", detail, "run this check as root too", Grade.UNKNOWN)]
    return [_net_admin(rights), _net_raw(rights, legacy=legacy)]


def _net_admin(rights: Rights) -> Finding:
    what = "CAP_NET_ADMIN"
    if rights.administers:
        return ok(NODE, what, "this process may change rules here; so may a proxy like it")
    detail = "this process may not change rules in this network namespace"
    remedy = "in a pod: hostNetwork: true, and securityContext.capabilities.add: [NET_ADMIN]"
    return lacking(NODE, what, detail, remedy)


def _net_raw(rights: Rights, *, legacy: bool) -> Finding:
    what = "CAP_NET_RAW"
    needed = "rules that look into sets need it" + (", and iptables-legacy does" * legacy)
    finding = ok(NODE, what, needed)
    if not rights.has(NET_RAW):
        remedy = "in a pod: securityContext.capabilities.add: [NET_RAW]"
        finding = lacking(NODE, what, f"is missing: {needed}", remedy)
    modes = [mode for mode in all_modes() if mode.uses_ipset or (legacy and mode.uses_iptables)]
    return replace(finding, modes=tuple(mode.name for mode in modes))
