"""Probes -> notices: what differs between the two sides, gathered by effect and destination."""

from collections.abc import Iterable
from typing import NamedTuple

from kubeproxy.plan.outcome import HARM, Effect, Outcome, effects, names, outcome_of, words
from kubeproxy.plan.probes import Place, Probe, View, Views
from kubeproxy.plan.wire import Notice
from kubeproxy.table.decide import Packet, decide


class _Key(NamedTuple):
    """What notices have in common that are told as one."""

    effect: Effect
    place: Place
    before: str
    after: str
    lost: tuple[str, ...]
    gained: tuple[str, ...]


def notices(views: Views, probes: Iterable[Probe]) -> list[Notice]:
    """What clients notice, the most harmful first."""
    found: dict[tuple[_Key, str], dict[str, None]] = {}
    for probe in probes:
        before, after = _outcomes(views, probe)
        if before == after:
            continue
        at = f"{probe.at} and {probe.more} more addresses" if probe.more else probe.at
        for effect in effects(before, after):
            found.setdefault((_key(effect, probe.place, before, after), at), {})[probe.client] = (
                None
            )
    return gathered(found)


def gathered(found: dict[tuple[_Key, str], dict[str, None]]) -> list[Notice]:
    """One notice for all destinations at which the same clients notice the same."""
    together: dict[tuple[_Key, tuple[str, ...]], list[str]] = {}
    for (key, at), clients in found.items():
        together.setdefault((key, tuple(clients)), []).append(at)
    return in_order(
        Notice(
            effect=key.effect,
            place=key.place.value,
            at=tuple(at),
            clients=clients,
            before=key.before,
            after=key.after,
            lost=key.lost,
            gained=key.gained,
        )
        for (key, clients), at in together.items()
    )


def in_order(found: Iterable[Notice]) -> list[Notice]:
    """The most harmful first."""
    return sorted(found, key=lambda each: HARM[each.effect])


def _outcomes(views: Views, probe: Probe) -> tuple[Outcome, Outcome]:
    one, other = views
    return _outcome(one, probe.before), _outcome(other, probe.after)


def _outcome(view: View, packet: Packet) -> Outcome:
    return outcome_of(decide(packet, view.table, view.node, view.quirks))


def _key(effect: Effect, place: Place, before: Outcome, after: Outcome) -> _Key:
    moves = before.served and after.served
    lost = names(before.endpoints - after.endpoints) if moves else ()
    gained = names(after.endpoints - before.endpoints) if moves else ()
    return _Key(effect, place, words(before), words(after), lost, gained)
