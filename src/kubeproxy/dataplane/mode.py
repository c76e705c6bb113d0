"""What the program needs to know of a mode. Each mode has one `Mode` value, in its `mode.py`.

A `mode.py` imports little: its functions load the parts of the mode when they are called, so that
a daemon has only its own mode in memory.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.config.defaults import KnownMode
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.dataplane.contract import Dataplane, EntryChange
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.leftovers import Cleanup, Leftover
from kubeproxy.dataplane.preflight import Finding, Machine, Scan
from kubeproxy.dataplane.sysctls import Sysctls
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.quirks import Quirks

FULL_SYNC_PERIOD = 3600.0
TRANSLATING = {
    "addresses of Services": "not the node's: no program can send from there, or listen there",
    "established connections": "kept by conntrack",
}
"""Habits of modes whose rules translate addresses."""


class Metric(msgspec.Struct, frozen=True):
    """A family of metrics that not every mode has.

    Its values are those of `figures()` of the dataplanes, under its name; or what `read` returns,
    as label values and value. `read` asks the kernel: call it in a thread.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ("ip_family",)
    read: Callable[[tuple[Family, ...]], Iterable[tuple[tuple[str, ...], float]]] | None = None


class Mode(KnownMode, frozen=True, kw_only=True):
    """One mode. What it does not set is as in most modes."""

    quirks: Quirks
    """In which verdicts it differs from the policies."""

    open: Callable[[Config], Callable[[Family], Dataplane]]
    """Makes the dataplane of a family; raises `KernelError` where the kernel lacks something."""

    render: Callable[[Config, Table, NodeView], str]
    """What a full sync writes into an empty kernel, as text."""

    drift: Callable[[Config, Table, NodeView, Collection[ServicePortName]], list[Difference]]
    """What a full sync would change now; the last argument are service ports known to fail."""

    clean_up: Callable[[Cleanup], None]
    """Removes what the mode left in the kernel, of any release and of upstream."""

    trial: Callable[[Config, Machine], list[Finding]] = lambda *_: []
    """Writes samples into the kernel; run in a scratch network namespace, by `check`."""

    writes_kernel: Callable[[], bool] = lambda: True
    """Whether it writes into the kernel of this machine; where it does not, nothing else does."""

    why_no_loopback: Callable[[Family], str] = lambda _family: (
        "localhost NodePorts are not supported in this mode"
    )
    """Why node ports on loopback addresses are not served, where they are not."""

    check: Callable[[Machine], list[Finding]] = lambda _machine: []
    """What is known about the machine without a trial."""

    rehearse: Callable[[Machine], list[Finding]] | None = None
    """Asks the kernel without writing, for where there is no scratch namespace."""

    tally: Callable[[Config, NodeView], Callable[[EntryChange], int]] = lambda *_: (
        lambda _change: 1
    )
    """How many kernel objects a change of a service port writes, for `plan`. Reads no kernel."""

    habits: Callable[[Config], Mapping[str, str]] = lambda _config: {}
    """What it does that no verdict on a packet shows, by subject: `plan` compares two modes."""

    leftovers: Callable[[Scan], Iterator[Leftover]] = lambda _scan: iter(())
    """What there is of the mode in the kernel, for `check`."""

    sysctls: Callable[[Config, Mapping[Family, NodeView], str], Sysctls] = lambda *_: Sysctls()
    """The kernel settings that the mode makes; the text is the kernel's release."""

    metrics: Callable[[Gates], tuple[Metric, ...]] = lambda _gates: ()
    """The families of metrics that the mode adds."""

    counts_endpoints: Callable[[Config], bool] = lambda _config: False
    """Whether connections are counted for each endpoint too."""

    uses_iptables: bool = False
    """Whether it runs the iptables programs. Such modes share chains, and keep each other's."""

    uses_ipset: bool = False
    """Whether its rules use ipsets."""

    device: str = ""
    """A network device of its own. Its addresses are those of services, not of the node."""

    full_sync_period: float | None = FULL_SYNC_PERIOD
    """Seconds between full syncs; None makes each periodic sync a full one."""

    has_fast_path: bool = False
    """Whether established connections can leave its rules."""

    balances: bool = False
    """Whether a Service may choose how an endpoint is picked."""

    times_full_syncs: bool = True
    """Whether the durations of full and of partial syncs have metrics of their own."""

    counts_rules: bool = False
    """Whether reports of syncs count the rules of each table."""

    counts_services: bool = False
    """Whether `no_local_endpoints_total` counts Services instead of their ports."""
