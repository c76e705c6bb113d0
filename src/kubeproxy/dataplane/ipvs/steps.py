"""A virtual server, actual and desired -> the commands that make it the desired one.

Real servers of TCP that are not wanted any more end by themselves. Such a server has weight 0, so
that it gets no new connections; it is checked repeatedly, and goes with its last connection,
however long that takes. Which ones drain is known in memory only: after a restart, stale real
servers are found in the kernel and start to drain again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.base.inet import Protocol
from kubeproxy.dataplane.ipvs.plan import Server
from kubeproxy.linux.netlink.ipvs import (
    AddReal,
    AddServer,
    Command,
    DeleteReal,
    RealKey,
    RealServer,
    ServerKey,
    SetReal,
    SetServer,
    VirtualServer,
)

WEIGHT = 1
DRAINING = 0


class FoundServer(msgspec.Struct, frozen=True):
    """A virtual server as the kernel has it, and the weights of its real servers."""

    virtual: VirtualServer
    weights: Mapping[RealKey, int] = {}


class Steps(msgspec.Struct, frozen=True):
    """Commands, in their order.

    `leaving` are real servers that leave now and may still have connections; `waiting` are those
    that left before and still have some.
    """

    commands: tuple[Command, ...] = ()
    leaving: tuple[RealKey, ...] = ()
    waiting: frozenset[RealKey] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.commands or self.leaving)


def as_written(server: Server, draining: Iterable[RealKey]) -> FoundServer:
    """A virtual server as it was written."""
    weights = dict.fromkeys(server.reals, WEIGHT)
    weights.update(dict.fromkeys(draining, DRAINING))
    return FoundServer(server.virtual, weights)


def steps(
    key: ServerKey,
    wanted: Server,
    found: FoundServer | None,
    draining: frozenset[RealKey],
    *,
    resets: bool = False,
) -> Steps:
    """What makes the kernel's virtual server the desired one.

    Weights that others set stay, unless `resets` says that they may be left from an earlier run.
    A real server that comes back while it drains is used at once.
    """
    commands: list[Command] = []
    leaving: list[RealKey] = []
    if found is None:
        found = FoundServer(wanted.virtual)
        commands.append(AddServer(key, wanted.virtual))
    elif found.virtual != wanted.virtual:
        commands.append(SetServer(key, wanted.virtual))
    for real in wanted.reals:
        if real not in found.weights:
            commands.append(AddReal(key, real, WEIGHT))
        elif found.weights[real] != WEIGHT and (resets or real in draining):
            commands.append(SetReal(key, real, WEIGHT))
    kept = frozenset(wanted.reals)
    for real, weight in found.weights.items():
        if real in kept or real in draining:
            continue
        if key.protocol is not Protocol.TCP:
            commands.append(DeleteReal(key, real))
            continue
        # New connections are stopped before existing ones are counted: none is missed.
        if weight != DRAINING:
            commands.append(SetReal(key, real, DRAINING))
        leaving.append(real)
    return Steps(tuple(commands), tuple(leaving), draining - kept)


def drained(
    key: ServerKey, leaving: Iterable[RealKey], found: Mapping[RealKey, RealServer]
) -> tuple[list[DeleteReal], frozenset[RealKey]]:
    """What deletes those without connections, and those that have some; others are gone."""
    present = [real for real in leaving if real in found]
    waiting = frozenset(real for real in present if found[real].active or found[real].inactive)
    return [DeleteReal(key, real) for real in present if real not in waiting], waiting
