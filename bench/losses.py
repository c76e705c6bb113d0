"""Where packets of connections that failed can have been lost: the kernel's own counts.

A connection fails when its first packet is lost more than once, so these say whether the machine
was too slow to accept connections, or the node's table of connections too small.
"""

from pathlib import Path

import msgspec

from lab.namespaces import Namespace

_NET = Path("/proc/thread-self/net")
_NOT_TRACKED = ("drop", "insert_failed")


class Losses(msgspec.Struct, frozen=True):
    """Packets for which there was no room in a queue of the server's, or in the node's table."""

    accept: int
    tracked: int

    def since(self, before: "Losses") -> str:
        """What was lost since then, in words."""
        return (
            f"{self.accept - before.accept:,} packets found the server's accept queues full, and "
            f"the node could not track {self.tracked - before.tracked:,}"
        )


def losses(node: Namespace, server: Namespace) -> Losses:
    """All that were lost so far, at a node and at the machine with the endpoints."""
    with server.entered():
        accept = listen_drops((_NET / "netstat").read_text())
    with node.entered():
        file = _NET / "stat/nf_conntrack"
        tracked = not_tracked(file.read_text()) if file.exists() else 0
    return Losses(accept, tracked)


def listen_drops(netstat: str) -> int:
    """Packets without room, from /proc/net/netstat: lines of names and of values, in pairs."""
    lines = [line.split() for line in netstat.splitlines()]
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        if "ListenDrops" in names:
            return int(values[names.index("ListenDrops")])
    raise ValueError("the kernel does not count ListenDrops")


def not_tracked(stat: str) -> int:
    """Packets that were dropped, from /proc/net/stat/nf_conntrack: a line for each processor."""
    names, *processors = (line.split() for line in stat.splitlines())
    places = [names.index(name) for name in _NOT_TRACKED]
    return sum(int(values[place], 16) for values in processors for place in places)
