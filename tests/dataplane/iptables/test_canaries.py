"""The canaries with programs that are none: what is a flush, and what is not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from fakes.xtables import FakeXtables
from kubeproxy.base.writer import Writer
from kubeproxy.dataplane.iptables import canaries as module
from kubeproxy.dataplane.iptables.canaries import watch_canaries
from kubeproxy.dataplane.iptables.names import CANARY
from waiting import until

LOCKED = "exit code 4"


class Watched:
    """Canaries that are visited all the time, and a note of every flush."""

    def __init__(self) -> None:
        self.programs = FakeXtables()
        self.flushes = 0

    async def watch(self) -> None:
        await watch_canaries(self.programs, self._lost, 0.001)

    def _lost(self, _: Writer | None) -> None:
        self.flushes += 1

    @property
    def canaries(self) -> int:
        return sum(chain == CANARY for _, chain in self.programs.chains)

    def saw(self, flushes: int) -> bool:
        """Whether there were so many flushes, and all canaries are back."""
        return self.flushes == flushes and self.canaries == 3


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_SETTLE_POLL", 0.001)
    opened = Watched()
    watching = asyncio.create_task(opened.watch())
    yield opened
    watching.cancel()


async def test_a_flush_is_noticed_and_the_canaries_come_back(watched: Watched) -> None:
    await until(lambda: watched.saw(0))
    watched.programs.chains.clear()
    await until(lambda: watched.saw(1))
    watched.programs.chains.discard(("nat", CANARY))  # a flush of one table is noticed as well
    await until(lambda: watched.saw(2))


async def test_a_program_that_fails_is_not_a_flush(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    await until(lambda: watched.saw(0))
    watched.programs.broken = LOCKED
    await until(lambda: "Cannot check whether the rules" in capsys.readouterr().err)
    watched.programs.broken = ""
    looks = watched.programs.looks
    await until(lambda: watched.programs.looks > looks + 6)
    assert watched.saw(0)


async def test_a_flush_while_no_program_runs_is_not_forgotten(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    await until(lambda: watched.saw(0))
    watched.programs.broken = LOCKED
    watched.programs.chains.clear()
    await until(lambda: "Cannot check whether the rules" in capsys.readouterr().err)
    assert watched.flushes == 0
    watched.programs.broken = ""
    await until(lambda: watched.saw(1))


async def test_what_was_seen_gone_is_reported_before_canaries_can_be_put_back(
    watched: Watched, capsys: pytest.CaptureFixture[str]
) -> None:
    await until(lambda: watched.saw(0))
    watched.programs.no_new_chains = True
    watched.programs.chains.clear()
    await until(lambda: "cannot make a chain" in capsys.readouterr().err)
    assert watched.flushes == 1
    watched.programs.no_new_chains = False
    await until(lambda: watched.saw(2))  # the second time for what happened in between
