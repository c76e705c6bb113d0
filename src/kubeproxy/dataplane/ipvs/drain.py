"""Real servers that are wanted no more and have connections: they end by themselves.

TCP only. Such a server has weight 0, so that it gets no new connections; it is checked repeatedly,
and goes with its last connection, however long that takes. The list is in memory only: after a
restart, stale real servers are found in the kernel and start to drain again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.linux.netlink.ipvs import DeleteReal, RealKey, RealServer, ServerKey

_NOBODY: frozenset[RealKey] = frozenset()


class Look(msgspec.Struct, frozen=True):
    """What a look at one virtual server found: the commands, and who has connections still."""

    commands: tuple[DeleteReal, ...] = ()
    waiting: tuple[RealKey, ...] = ()


def look(key: ServerKey, leaving: Iterable[RealKey], found: Mapping[RealKey, RealServer]) -> Look:
    """Who of the leaving has connections still, and who can go; those not found are gone."""
    present = [real for real in leaving if real in found]
    return Look(
        tuple(DeleteReal(key, real) for real in present if not _connections(found[real])),
        tuple(real for real in present if _connections(found[real])),
    )


def _connections(real: RealServer) -> int:
    return real.active + real.inactive


class Drain:
    """The list, by virtual server."""

    def __init__(self) -> None:
        self._waiting: dict[ServerKey, frozenset[RealKey]] = {}

    def waiting(self, key: ServerKey) -> frozenset[RealKey]:
        """Who drains behind a virtual server."""
        return self._waiting.get(key, _NOBODY)

    def servers(self) -> tuple[ServerKey, ...]:
        """The virtual servers with draining real servers."""
        return tuple(self._waiting)

    def put(self, key: ServerKey, reals: Iterable[RealKey]) -> None:
        """These are who drains behind a virtual server from now on."""
        waiting = frozenset(reals)
        if waiting:
            self._waiting[key] = waiting
        else:
            self._waiting.pop(key, None)
