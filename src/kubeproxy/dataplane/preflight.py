"""What `kube-proxy check` finds out about a node, for one mode or for all. Values only."""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.xtables_chains import Chains

T = TypeVar("T")

# What a finding is about, unless it is about one mode: then it is the name of the mode.
NODE = "node"
PROGRAMS = "programs"
RIVALS = "rivals"
PORTS = "ports"

BRIDGE = "br_netfilter"
"""The module that makes packets between the ports of every bridge pass the rules."""

# kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/lib/libcrc32c.ko.xz
_MODULE_LINE = re.compile(r"^(?:\S*/)?([^/:\s]+)\.ko\b", re.MULTILINE)


class Grade(Enum):
    """How it is. Only what is missing keeps a mode from working.

    A mode may work without what is unknown. What is untried it needs, and it was not seen to
    work: a trial was refused, or has no result.
    """

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"
    UNKNOWN = "unknown"
    UNTRIED = "untried"


class Finding(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what to do about it.

    `modes` are the names of those it matters for; None are all that the topic is about.
    """

    topic: str
    what: str
    state: Grade
    detail: str = ""
    remedy: str = ""
    modes: tuple[str, ...] | None = None


def ok(topic: str, what: str, detail: str = "") -> Finding:
    """It is as it should be."""
    return Finding(topic, what, Grade.OK, detail)


def lacking(
    topic: str, what: str, detail: str, remedy: str, state: Grade = Grade.MISSING
) -> Finding:
    """It is not as it should be, or cannot be seen."""
    return Finding(topic, what, state, detail, remedy)


def unfinished(topic: str, what: str, why: object) -> Finding:
    """A program did not come to its end, which says nothing about the kernel."""
    remedy = "run this check again, when the node has less to do"
    return lacking(topic, what, str(why), remedy, Grade.UNTRIED)


def one_will_do(findings: Sequence[Finding], consequence: str) -> tuple[Finding, ...]:
    """One that is right is enough: what the others lack is then a warning."""
    if all(finding.state is Grade.MISSING for finding in findings):
        return tuple(findings)
    return as_warnings(findings, consequence)


def as_warnings(findings: Sequence[Finding], consequence: str) -> tuple[Finding, ...]:
    """The mode works without it, with this consequence."""
    return tuple(
        replace(finding, state=Grade.WARNING, detail=f"{consequence}: {finding.detail}")
        if finding.state is Grade.MISSING
        else finding
        for finding in findings
    )


# --- the machine ------------------------------------------------------------------------------


class Modules(msgspec.Struct, frozen=True):
    """Kernel modules.

    `available` are the modules that could be loaded, None where that is unknown; `present` are
    those in the kernel now. `loads` says that the proxy could load one by itself.
    """

    available: frozenset[str] | None = None
    present: frozenset[str] = frozenset()
    loads: bool = False

    def might_load(self, name: str) -> bool:
        """Whether the kernel would load the module when it is needed."""
        return name not in self.present and (self.available is None or name in self.available)


def modules_in(listing: str) -> frozenset[str]:
    """The names in `modules.dep` or `modules.builtin`, spelled as `lsmod` spells them."""
    return frozenset(name.replace("-", "_") for name in _MODULE_LINE.findall(listing))


class Machine(msgspec.Struct, frozen=True):
    """What a trial depends on: the kernel's release, the IP families, the modules."""

    release: str
    families: tuple[Family, ...]
    modules: Modules = Modules()


# --- what others left -------------------------------------------------------------------------


class NotInstalled(Exception):
    """A program that would be needed to look."""


class Scan:
    """What was seen of other proxies, by modes too, and in `unseen` what could not be.

    `kind` is that of the system's iptables programs, nft or legacy, "" where there are none.
    `administers` says whether this process may change this network namespace.
    """

    def __init__(
        self, kind: str = "nft", devices: frozenset[str] = frozenset(), *, administers: bool = True
    ) -> None:
        self.kind = kind
        self.devices = devices
        self.administers = administers
        self.chains: tuple[Chains, ...] = ()
        self.unseen: dict[str, str] = {}

    def at(self, what: str, look: Callable[[], T], otherwise: T) -> T:
        """What a look finds; when it fails, the reason is kept."""
        try:
            return look()
        except PermissionError:
            self.unseen[what] = "run this check as root, with CAP_NET_ADMIN"
        except FileNotFoundError:
            pass  # the kernel lacks what the file would list
        except NotInstalled as error:
            self.unseen[what] = f"install {error}"
        except KernelError as error:
            self.unseen[what] = f"see why this fails: {error}"
        return otherwise
