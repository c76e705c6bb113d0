"""Changes that others made to the rules: counted by program, and logged now and then."""

import pytest

from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer, writer_text
from kubeproxy.engine import foreign_changes
from kubeproxy.engine.foreign_changes import OTHERS, ForeignChanges
from kubeproxy.engine.repairs import OfLate
from waiting import until

FIRST = "The kernel's rules were changed by another program, repairing"
PROXY = Writer("kube-proxy", 29338)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    found = capsys.readouterr().err.splitlines()
    return [line[0] + line.partition("]")[2] for line in found]


async def test_the_last_minute_is_counted() -> None:
    clock = Clock()
    changes = ForeignChanges(Family.IPV4, clock)
    assert changes.of_late() == OfLate()
    changes.add(None)
    clock.now += 50
    for _ in range(4):
        changes.add(PROXY)
        clock.now += 2
    assert changes.of_late() == OfLate(5, 5, 56.0, 2.0, PROXY)
    clock.now += 10
    assert changes.of_late() == OfLate(5, 4, 6.0, 12.0, PROXY)
    clock.now += 100
    assert changes.of_late() == OfLate(5, 0, 0.0, 112.0, PROXY)


async def test_the_last_one_that_is_known_is_named() -> None:
    clock = Clock()
    changes = ForeignChanges(Family.IPV4, clock)
    changes.add(PROXY)
    changes.add(None)
    assert changes.of_late().writer == PROXY
    clock.now += 61
    changes.add(None)
    assert changes.of_late().writer is None


async def test_programs_are_counted_and_there_are_few_of_them() -> None:
    changes = ForeignChanges(Family.IPV4, Clock())
    assert changes.programs == {"": 0}
    for number in range(20):
        changes.add(Writer(f"nft-{number}", number))
    changes.add(None)
    changes.add(Writer("nft-3", 99))
    assert changes.programs[OTHERS] == 12
    assert (changes.programs["nft-3"], changes.programs[""]) == (2, 1)
    assert len(changes.programs) == 10


async def test_the_first_is_logged_at_once_and_others_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_changes, "PERIOD", 0.01)
    clock = Clock()
    changes = ForeignChanges(Family.IPV4, clock)
    changes.add(Writer("nft", 5))
    for _ in range(46):
        changes.add(PROXY)
    clock.now += 11
    await until(lambda: changes._due is None)  # it is quiet since the second line
    first, together = lines(capsys)
    assert first == f'W "{FIRST}" ipFamily="IPv4" by="nft (pid 5)"'
    assert together == (
        'W "The kernel\'s rules are changed by other programs again and again" ipFamily="IPv4"'
        ' repairs=46 seconds=11 lastBy="kube-proxy (pid 29338)"'
    )
    changes.add(None)
    assert lines(capsys) == [f'W "{FIRST}" ipFamily="IPv4" by="an unknown program"']


def test_a_name_that_no_terminal_should_see() -> None:
    assert "\x1b" not in writer_text(Writer("\x1b[31m", 7))
