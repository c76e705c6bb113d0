"""What is kept of syncs between requests."""

import itertools

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import SyncReport
from kubeproxy.engine.observer import LoopStarted, SyncEnded, SyncStarted
from kubeproxy.engine.schedule import Outcome
from kubeproxy.serve.status.history import LATEST, History, Past
from kubeproxy.table.diff import Changes
from world import service, table_of

V4, V6 = Family.IPV4, Family.IPV6
CHANGES = Changes(added=tuple(table_of(service()).entries.values()))


def ended(family: Family = V4, outcome: Outcome = Outcome.OK, *, full: bool = False) -> SyncEnded:
    report = None if outcome is Outcome.FAILED else SyncReport(written=7)
    return SyncEnded(family, outcome, full, 0.25, CHANGES, report)


def test_a_sync_is_kept_as_numbers() -> None:
    history = History(lambda: 1000.0)
    history.observe(LoopStarted(V4))
    history.observe(ended(full=True))
    expected = Past(1000.0, 0.25, True, Outcome.OK, 1, 0, 0, 7)
    assert [expected] == list(history.of(V4).latest)
    assert expected == history.of(V4).last_full


def test_one_that_failed_wrote_nothing_that_is_known() -> None:
    history = History(lambda: 1000.0)
    for outcome in (Outcome.FAILED, Outcome.PARTLY):
        history.observe(ended(outcome=outcome))
    assert (history.of(V4).count, history.of(V4).failures) == (2, 1)
    assert [past.written for past in history.of(V4).latest] == [0, 7]
    assert history.of(V4).last_full is None


def test_each_family_has_its_own() -> None:
    history = History(lambda: 0.0)
    history.observe(ended(V6))
    assert (history.of(V4).count, history.of(V6).count) == (0, 1)


def test_the_latest_are_kept_and_all_are_counted() -> None:
    clock = itertools.count()
    history = History(lambda: float(next(clock)))
    history.observe(ended(full=True))
    for _ in range(LATEST + 20):
        history.observe(ended())
    kept = history.of(V4)
    assert (kept.count, len(kept.latest)) == (LATEST + 21, LATEST)
    assert kept.latest[-1].at == LATEST + 20
    assert kept.last_full is not None
    assert kept.last_full.at == 0


def test_a_sync_runs_from_its_beginning_to_its_end() -> None:
    history = History(lambda: 0.0)
    states = [history.of(V4).running]
    for observation in (SyncStarted(V4), SyncStarted(V6), ended(V6), ended(V4)):
        history.observe(observation)
        states.append(history.of(V4).running)
    assert states == [False, True, True, True, False]
