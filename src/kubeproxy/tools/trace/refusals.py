"""First packets that the rules refuse or drop: what the running proxy says of them."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from kubeproxy.base.inet import Protocol, unpack
from kubeproxy.explain.words import Explanation
from kubeproxy.linux.netlink.packets import Packet
from kubeproxy.serve.status.words import plural
from kubeproxy.table.decide import Action
from kubeproxy.tools.trace.connections import (
    MOST,
    NODE_PORT,
    Filter,
    Index,
    Place,
    Refusal,
    place_of,
    shown_end,
)

WORDS: Final = {Action.REJECT.value: "refused", Action.DROP.value: "dropped"}
"""What the rules do, in the words of the trace."""
_REPEAT_SECONDS: Final = 60.0
_REMEMBERED: Final = 10_000


def place_of_packet(known: Index, wanted: Filter, packet: Packet) -> Place | None:
    """The frontend that a packet is sent to, if it is wanted; it goes to no endpoint."""
    to = packet.destination
    place = place_of(known, (to[:-2], bytes([packet.protocol]), to[-2:]))
    if place is None or (place[1].kind == NODE_PORT and to[:-2] not in known.own):
        return None
    return place if wanted.fits(unpack(packet.client[:-2]), b"") else None


def question(packet: Packet, interface: str) -> dict[str, str]:
    """What the running proxy is asked."""
    protocol = Protocol(packet.protocol).name
    return {
        "from": unpack(packet.client[:-2]),
        "to": f"{shown_end(packet.destination)}/{protocol}",
        "interface": interface,
    }


def refusal(place: Place, packet: Packet, explained: Explanation) -> Refusal | None:
    """What becomes of a packet; None when it is neither refused nor dropped."""
    what = WORDS.get(explained.verdict)
    if what is None:
        return None
    watched, frontend = place
    return Refusal(
        watched=watched,
        frontend=frontend,
        ip_family=watched.port.ip_family,
        client=shown_end(packet.client),
        destination=shown_end(packet.destination),
        verdict=explained.verdict,
        reason=explained.reason,
        what=what,
        why=explained.summary.partition(": ")[2],
    )


class Repeats:
    """Knows which packets repeat an earlier one, because the first was not answered."""

    def __init__(self) -> None:
        self._latest: dict[tuple[int, bytes, bytes], float] = {}

    def is_new(self, packet: Packet, now: float) -> bool:
        """Whether no packet between these ends came within the last minute."""
        ends = packet[:3]
        last = self._latest.pop(ends, -math.inf)
        self._latest[ends] = now
        if len(self._latest) > _REMEMBERED:
            del self._latest[next(iter(self._latest))]
        return now - last > _REPEAT_SECONDS


def summary(refusals: Counter[tuple[str, str, str]], shown: int) -> Iterator[str]:
    """Lines for people: which service ports refused or dropped, why and how often."""
    if not refusals:
        return
    yield f"{plural(refusals.total(), 'connection')} refused or dropped, {shown:,} shown"
    for (name, what, why), number in refusals.most_common(MOST):
        yield f"  {name}  {number:,}  {what}: {why}"
    if len(refusals) > MOST:
        yield f"  and {len(refusals) - MOST:,} more"
