"""The kernel against `decide`: every pair is tried with real packets, as often as it takes.

A choice among several endpoints has been seen when each of them has answered.
"""

import itertools
from collections.abc import Iterable, Sequence

from kubeproxy.base.inet import family_of, join
from kubeproxy.table.decide import Packet
from lab.dialer import Dialer
from lab.expectation import Expectation
from lab.pairs import Pair
from lab.trial import Trial

TRIES_EACH = 40
"""Tries for each endpoint: with so many, one is missed by chance once in 10^16 runs."""
STICKY_ROUNDS = 4
MOST_ROWS = 40


def compare(dialer: Dialer, expected: Expectation, pairs: Iterable[Pair]) -> list[Trial]:
    """Try every pair; each trial says whether the kernel did what it should."""
    trials = [_trial(expected, pair) for pair in pairs]
    sticky = [trial for trial in trials if trial.verdict.affinity_seconds]
    free = [trial for trial in trials if not trial.verdict.affinity_seconds]
    _try_until_settled(dialer, free)
    _try_in_turn(dialer, sticky)
    return trials


def _trial(expected: Expectation, pair: Pair) -> Trial:
    node = expected.node(family_of(pair.packet.destination))
    return Trial(pair, expected.verdict(pair.packet), node, expected.mode)


def _try_until_settled(dialer: Dialer, trials: Sequence[Trial]) -> None:
    pending = list(trials)
    while pending:
        # As many tries at once as there are endpoints: about a third of the pairs is then done.
        batch = [t for t in pending for _ in range(max(1, len(t.verdict.choices)))]
        _round(dialer, batch)
        pending = [t for t in pending if not t.is_settled and not t.complaint]
        for trial in pending:
            if trial.tries >= TRIES_EACH * len(trial.verdict.choices):
                trial.give_up()
        pending = [t for t in pending if not t.complaint]


def _try_in_turn(dialer: Dialer, trials: Sequence[Trial]) -> None:
    """Session affinity: a client's connections to a service one after the other.

    In the first round it may get an endpoint for each policy; from then on nothing may change.
    """
    by_client: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        key = (trial.pair.packet.source, str(trial.verdict.service))
        by_client.setdefault(key, []).append(trial)
    for number in range(STICKY_ROUNDS):
        for turn in itertools.zip_longest(*by_client.values()):
            batch = [t for t in turn if t is not None and not t.complaint]
            before = [t.reached for t in batch]
            _round(dialer, batch)
            for trial, reached in zip(batch, before, strict=True):
                if number > 1 and trial.reached != reached and not trial.complaint:
                    trial.complaint = f"affinity lost: {reached}, then {trial.reached}"


def _round(dialer: Dialer, trials: Sequence[Trial]) -> None:
    outcomes = dialer.dial([trial.probe for trial in trials])
    for trial, outcome in zip(trials, outcomes, strict=True):
        trial.feed(outcome)


def report(trials: Iterable[Trial]) -> str:
    """The pairs in which the kernel disagrees, as a table; "" when there are none."""
    wrong = [trial for trial in trials if trial.complaint]
    rows = [
        (
            f"{trial.pair.source} {trial.pair.packet.source}",
            _destination(trial.pair.packet),
            trial.expected(),
            trial.complaint,
        )
        for trial in wrong[:MOST_ROWS]
    ]
    if not rows:
        return ""
    lines = [("SOURCE", "DESTINATION", "EXPECTED", "SEEN"), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    more = len(wrong) - len(rows)
    return f"{text}\nand {more} more" if more else text


def _destination(packet: Packet) -> str:
    if packet.protocol is None:
        return f"{packet.destination} echo"
    return f"{join(packet.destination, packet.port)}/{packet.protocol.name}"
