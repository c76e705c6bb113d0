"""userspace mode: listeners of our own pass on what clients send."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration as Config
from kubeproxy.dataplane.contract import Dataplane, EntryChange
from kubeproxy.dataplane.difference import Difference
from kubeproxy.dataplane.leftovers import Cleanup, Leftover
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.preflight import Finding, Machine, Scan
from kubeproxy.dataplane.userspace.configured import problems, settings
from kubeproxy.dataplane.userspace.settings import QUIRKS
from kubeproxy.table.entries import ServicePortName, Table
from kubeproxy.table.node import NodeView


def _open(config: Config) -> Callable[[Family], Dataplane]:
    from kubeproxy.dataplane.userspace.apply import Userspace
    from kubeproxy.dataplane.userspace.reach import chosen_reach

    chosen, writing = settings(config), threading.Lock()
    reach = chosen_reach(chosen, writing)

    def open_family(family: Family) -> Dataplane:
        return Userspace(family, chosen, reach(family))

    return open_family


def _writes_kernel() -> bool:
    from kubeproxy.dataplane.userspace.reach import why_no_rules

    return not why_no_rules()


def _render(_config: Config, table: Table, node: NodeView) -> str:
    from kubeproxy.dataplane.userspace.render import rendered

    return rendered(table, node)


def _drift(
    _config: Config, table: Table, node: NodeView, failed: Collection[ServicePortName]
) -> list[Difference]:
    from kubeproxy.dataplane.userspace.drift import drift

    return drift(table, node, failed)


def _tally(_config: Config, node: NodeView) -> Callable[[EntryChange], int]:
    from kubeproxy.dataplane.userspace.state import tally

    return lambda change: tally(change, node)


def _habits(_config: Config) -> Mapping[str, str]:
    return {
        "choice of endpoints": "round robin",
        "addresses of Services": "not those of the node",
        "established connections": "end when the proxy ends",
    }


def _trial(_config: Config, machine: Machine) -> list[Finding]:
    from kubeproxy.dataplane.userspace.check import trial

    return trial(machine)


def _leftovers(scan: Scan) -> Iterator[Leftover]:
    from kubeproxy.dataplane.userspace.check import seen

    return seen(scan)


def _clean_up(cleanup: Cleanup) -> None:
    from kubeproxy.dataplane.userspace.cleanup import clean_up

    clean_up(cleanup)


MODE = Mode(
    name="userspace",
    problems=problems,
    quirks=QUIRKS,
    open=_open,
    writes_kernel=_writes_kernel,
    render=_render,
    drift=_drift,
    tally=_tally,
    habits=_habits,
    trial=_trial,
    leftovers=_leftovers,
    clean_up=_clean_up,
)
