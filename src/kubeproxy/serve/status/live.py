"""The parts of the running daemon that people may look at. They change while one looks."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.cluster.model.cluster import Cluster, Problem
from kubeproxy.cluster.source import Gap
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.mode import Mode
from kubeproxy.engine.sync import FamilySync
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.status.history import History

if TYPE_CHECKING:
    from kubeproxy.serve.traffic.traffic import Traffic

AT_ONCE: Final = 4
"""Answers that are in the making for clients of ports; others wait."""


class Live(msgspec.Struct, frozen=True):
    """Everything, for reading only, and in the event loop only; `traffic` in threads only.

    `traffic` is None where the mode counts no connections; one at a time reads it, so that those
    who look take no more than one of the threads that syncs need too. Answers to clients of ports
    are made `a_few` at a time: each takes its milliseconds in turn, and memory.

    `eligible` says whether load balancers should use this node, and `started` when the process
    began, on the wall clock. `gaps` are what the source cannot tell of now, `ignored` the parts of
    objects without a sense, `remains` why rules of other modes are still in the kernel.
    """

    config: KubeProxyConfiguration
    mode: Mode
    config_file: str
    source: str
    started: float
    cluster: Cluster
    syncs: Mapping[Family, FamilySync]
    health: Health
    history: History
    eligible: Callable[[], bool]
    gaps: Callable[[], Sequence[Gap]]
    ignored: Callable[[], Sequence[Problem]]
    remains: Callable[[], Sequence[str]]
    traffic: "Traffic | None"
    one_reader: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    a_few: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
