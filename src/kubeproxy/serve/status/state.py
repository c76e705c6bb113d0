"""The daemon at one moment, as a value: what every view of the status is made of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.source import Gap
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Dataplane, FastPathState
from kubeproxy.dataplane.mode import Mode
from kubeproxy.engine.ejection import Ejection
from kubeproxy.engine.repairs import OfLate
from kubeproxy.engine.surroundings import Surroundings
from kubeproxy.serve.status.history import FamilyHistory
from kubeproxy.serve.traffic.totals import TrafficWindow
from kubeproxy.table.build import Builder
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.node import NodeView

if TYPE_CHECKING:
    from kubeproxy.serve.healing.record import HealingRecord


class FamilyState(msgspec.Struct, frozen=True):
    """One IP family. `node` is None before the first sync that succeeded.

    `failed` are the service ports that the kernel refused, `failure` is why the last sync failed,
    `waiting` for how many seconds a change has waited for its sync. `look` has the connections,
    None where they are not counted or were not read. `left_out` are the endpoints that are left
    out because they fail, until when on the wall clock. `foreign_changes` are those of others.
    """

    family: Family
    builder: Builder
    node: NodeView | None
    failed: Mapping[ServicePortName, str]
    failure: str
    healthy: bool
    waiting: float | None
    history: FamilyHistory
    dataplane: Dataplane
    look: TrafficWindow | None = None
    left_out: Mapping[ServicePortName, Sequence[Ejection]] = {}
    foreign_changes: OfLate = OfLate()


class State(msgspec.Struct, frozen=True):
    """The daemon. Builders and the cluster change with the next sync or event.

    A view that is made in steps may see such a change; it leaves out what has gone meanwhile.

    `eligible` says whether load balancers should use this node. `gaps` are what the source cannot
    read now, `ignored` the parts of objects that are not valid, `remains` why rules of other modes
    are still in the kernel. `started` and `now` are seconds of the wall clock. `record` is what is
    kept of failures; None in a mode that does not heal. `fast_path` is None in a mode without one;
    `on_fast_path` counts the connections that take it.
    """

    config: KubeProxyConfiguration
    mode: Mode
    config_file: str
    source: str
    started: float
    now: float
    cluster: Cluster
    families: Mapping[Family, FamilyState]
    counts_connections: bool
    healthy: bool
    eligible: bool
    gaps: Sequence[Gap]
    ignored: Sequence[Problem]
    remains: Sequence[str]
    record: "HealingRecord | None" = None
    surroundings: Surroundings = Surroundings()
    fast_path: FastPathState | None = None
    on_fast_path: Mapping[Family, int] = {}
