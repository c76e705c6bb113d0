"""Listens to packets that the rules may refuse or drop, and asks the running proxy about each."""

import contextlib
import errno
import socket
import time
from collections.abc import Iterator
from typing import Final, Self

from kubeproxy.base.errors import KubeProxyError
from kubeproxy.base.inet import Family
from kubeproxy.explain.words import Explanation
from kubeproxy.linux.netlink.packets import MOST, Packet, packet_in
from kubeproxy.linux.netlink_socket import decoding, tolerating
from kubeproxy.linux.nflog import LogGroup
from kubeproxy.linux.nfnetlink import Nfnetlink
from kubeproxy.tools.client import Client
from kubeproxy.tools.trace import table
from kubeproxy.tools.trace.connections import Index, Trace
from kubeproxy.tools.trace.refusals import Repeats, place_of_packet, question, refusal

_GROUPS: Final = range(20256, 20272)
"""Of notifications: one for each trace that runs."""
_ASKED: Final = 100
"""So many questions a second at most: each takes the running proxy a millisecond or two."""
_AT_ONCE: Final = 1000


class RefusalWatch:
    """The table of a trace, and the packets that it logs. All goes with the process."""

    def __init__(self, daemon: Client) -> None:
        self._daemon = daemon
        self._repeats = Repeats()
        self._asked = 0
        self._second = 0.0
        self._known: Index | None = None
        self._frontends: dict[Family, table.Frontends] = {}
        with contextlib.ExitStack() as undo:
            group, self._log = _free_group()
            undo.callback(self._log.close)
            self._kernel = undo.enter_context(Nfnetlink())
            name = f"kube-proxy-trace-{group}"
            self._tables = {each: table.program(each, name, group) for each in Family}
            self._kernel.commit([m for each in self._tables.values() for m in table.begun(each)])
            self._undo = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def fileno(self) -> int:
        """For `poll`."""
        return self._log.fileno()

    @property
    def lost(self) -> int:
        """How many packets came too fast."""
        return self._log.lost

    def aim(self, known: Index) -> None:
        """Have the packets to those of these service ports that may refuse some."""
        if known is self._known:
            return
        watched = {id(place[0]): place[0] for place in known.places.values()}.values()
        for family, program in self._tables.items():
            wanted = table.frontends(watched, family)
            changes = table.changed(program, self._frontends.get(family, {}), wanted)
            self._kernel.commit(changes)
            self._frontends[family] = wanted
        self._known = known

    def take(self, trace: Trace) -> None:
        """Show what became of the packets that came since."""
        now = time.monotonic()
        if now >= self._second + 1:
            self._second, self._asked = now, 0
        for packet in self._packets():
            place = place_of_packet(trace.known, trace.bounds.wanted, packet)
            if place is None or not self._repeats.is_new(packet, now):
                continue
            if self._asked >= _ASKED:
                trace.hold_back()
                continue
            self._asked += 1
            with contextlib.suppress(KubeProxyError):  # that it does not answer is said elsewhere
                found = refusal(place, packet, self._explained(packet))
                if found is not None:
                    trace.take_refused(found)

    def _explained(self, packet: Packet) -> Explanation:
        asked = question(packet, _name(packet.interface))
        return self._daemon.get("/status/explain", tuple[Explanation, ...], asked)[0]

    def _packets(self) -> Iterator[Packet]:
        for message in self._log.read(_AT_ONCE):
            with decoding("cannot read a packet"):
                packet = packet_in(message)
            if packet is not None:
                yield packet


def _free_group() -> tuple[int, LogGroup]:
    """A group that no other trace has."""
    for group in _GROUPS[:-1]:
        with tolerating(errno.EPERM, errno.EBUSY):
            return group, LogGroup(group, MOST)
    return _GROUPS[-1], LogGroup(_GROUPS[-1], MOST)


def _name(interface: int) -> str:
    try:
        return socket.if_indextoname(interface) if interface else ""
    except OSError:  # gone
        return ""
