"""A virtual server, actual and desired -> the commands that make it the desired one.

Real servers of TCP that are not wanted any more end by themselves. Such a server has weight 0, so
that it gets no new connections; it is checked repeatedly, and goes with its last connection,
however long that takes. Which ones drain is known in memory only: after a restart, stale real
servers are found in the kernel and start to drain again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.base.inet import PROTOCOL_BY_NAME, Family, Protocol, unpack
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
_HEADING = 3  # lines of the kernel's list that name its columns


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


def listed_weights(listing: str, family: Family) -> dict[ServerKey, dict[RealKey, int]]:
    """The kernel's list of all virtual servers -> the weights of their real servers."""
    found: dict[ServerKey, dict[RealKey, int]] = {}
    places: dict[str, RealKey] = {}
    is_ipv6 = family is Family.IPV6
    weights: dict[RealKey, int] = {}
    for line in listing.split("\n")[_HEADING:]:
        words = line.split(maxsplit=4)
        if not words or words[0] != "->":
            weights = {}  # of a virtual server that is none of ours
            if words and words[0] in PROTOCOL_BY_NAME and words[1].startswith("[") is is_ipv6:
                place = _place(words[1])
                weights = found[ServerKey(PROTOCOL_BY_NAME[words[0]], *place)] = {}
            continue
        if words[1] not in places:
            places[words[1]] = _place(words[1])
        weights[places[words[1]]] = int(words[3])
    return found


def _place(text: str) -> RealKey:
    """An address in hexadecimal digits, that of IPv6 in brackets, and a port."""
    address, _, port = text.rpartition(":")
    return RealKey(unpack(bytes.fromhex(address.strip("[]").replace(":", ""))), int(port, 16))
