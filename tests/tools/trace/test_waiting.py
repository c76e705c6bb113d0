"""What became of connections: when the kernel is asked, and what its answer means."""

import math
from datetime import UTC, datetime

import pytest

from kubeproxy.base.inet import Protocol
from kubeproxy.linux.netlink.conntrack import IPS_ASSURED, IPS_SEEN_REPLY
from kubeproxy.tools.trace.outcomes import SECONDS, Outcome, outcome_of
from kubeproxy.tools.trace.waiting import Awaited, Waiting
from tools.trace.test_lines import FROM_POD, MASQUERADED

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("protocol", "status", "waited", "expected"),
    [
        (Protocol.TCP, 0, 0.01, Outcome.WAITING),
        (Protocol.TCP, IPS_SEEN_REPLY, 0.01, Outcome.ANSWERED),
        (Protocol.TCP, IPS_SEEN_REPLY | IPS_ASSURED, 9, Outcome.ANSWERED),
        (Protocol.TCP, None, 0.01, Outcome.REFUSED),
        (Protocol.UDP, None, 0.01, Outcome.FORGOTTEN),
        (Protocol.TCP, IPS_ASSURED, SECONDS, Outcome.UNANSWERED),
    ],
)
def test_an_outcome(
    protocol: Protocol, status: int | None, waited: float, expected: Outcome
) -> None:
    assert outcome_of(protocol, status, waited) is expected


def awaited(since: float) -> Awaited:
    return Awaited(FROM_POD, AT, since)


def test_it_is_asked_less_and_less_often_until_the_time_is_over() -> None:
    waiting = Waiting()
    assert (bool(waiting), waiting.next, waiting.due(0)) == (False, math.inf, [])
    waiting.add(awaited(100))
    asked: list[float] = []
    settled: list[Awaited] = []
    while waiting:
        now = waiting.next
        asked.append(now - 100)
        due = waiting.due(now)
        settled += waiting.settle(due, ((each.traced.connection, 0) for each in due), now)
    assert asked == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 3])
    assert [each.traced.outcome for each in settled] == [Outcome.UNANSWERED]


def test_each_is_settled_by_its_own_entry() -> None:
    waiting = Waiting()
    waiting.add(awaited(1))
    waiting.add(Awaited(MASQUERADED, AT, 2))
    waiting.add(awaited(3))
    due = waiting.due(2.5)
    entries = zip((each.traced.connection for each in due), (0, IPS_SEEN_REPLY), strict=True)
    settled = list(waiting.settle(due, entries, 2.5))
    assert [(each.traced.client, each.traced.outcome) for each in settled] == [
        (MASQUERADED.client, Outcome.ANSWERED)
    ]
    assert [each.since for each in waiting.rest()] == [1, 3]
    assert not waiting
