"""What the daemon tells a worker, and what it answers: frames on a Unix socket.

A frame is its length in four bytes, and msgpack. Descriptors travel beside the bytes, one for
each `Open`, in their order.
"""

import struct

import msgspec

from kubeproxy.dataplane.userspace.choosing import Target

LENGTH = struct.Struct("=I")
AT_ONCE = 250
"""How many orders go together: the kernel takes 253 descriptors in one message."""


class Open(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Serve a listening socket: with the endpoints of a list, of a service port."""

    listener: int
    tcp: bool
    targets: int


class Close(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Serve it no more; the connections that came through it go on."""

    listener: int


class Targets(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The endpoints of a list, before the first listener that has it; or other ones from now on.

    The lists of a service port have the same `service`, and so share what affinity remembers.
    """

    number: int
    service: int
    name: str
    affinity_seconds: int
    targets: tuple[Target, ...]


class Drop(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Forget a list; no listener has it any more."""

    number: int


class Count(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Report what was counted."""


Order = Open | Close | Targets | Drop | Count


class Orders(msgspec.Struct, frozen=True):
    """Orders that are carried out one after the other, and answered with one report."""

    orders: tuple[Order, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """How many connections each listener, and each endpoint of a list, has had.

    `taken` counts the TCP connections and the clients of UDP that there are. It is empty where
    nobody asked for it.
    """

    listeners: dict[int, int] = {}
    lists: dict[int, tuple[tuple[Target, int], ...]] = {}
    taken: int = 0


class Settings(msgspec.Struct, frozen=True):
    """What a worker knows from its start."""

    udp_idle_seconds: float
    verbosity: int = 0


def framed(message: Orders | Report) -> bytes:
    """A message as a frame."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
