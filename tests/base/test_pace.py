"""Long work is done in short steps: others have their turn in between, and nothing is lost."""

import asyncio
import time
from collections.abc import Iterable, Iterator

from kubeproxy.base.pace import paced, run
from kubeproxy.base.steps import Steps


class Others:
    """Another task of the event loop, which counts its turns."""

    def __init__(self) -> None:
        self.turns = 0
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def stop(self) -> int:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.turns


def slow(count: int) -> Iterator[int]:
    """Numbers that each take longer than a moment to make."""
    for number in range(count):
        until = time.monotonic() + 0.0011
        while time.monotonic() < until:
            pass
        yield number


def steps(numbers: Iterable[int]) -> Steps[list[int]]:
    found = []
    for number in numbers:
        found.append(number)
        yield
    return found


async def test_others_have_a_turn_after_every_moment() -> None:
    others = Others()
    assert await run(steps(slow(20))) == list(range(20))
    assert await others.stop() >= 19


async def test_quick_work_is_done_in_one_go() -> None:
    others = Others()
    assert await run(steps(range(10))) == list(range(10))
    assert await others.stop() == 0


async def test_pieces_of_a_moment_are_put_together() -> None:
    others = Others()
    quick = [piece async for piece in paced(b"%d" % number for number in range(10))]
    assert quick == [b"0123456789"]
    assert others.turns == 0
    pieces = [piece async for piece in paced(b"%d" % number for number in slow(5))]
    assert pieces == [b"0", b"1", b"2", b"3", b"4", b""]
    assert await others.stop() >= 4


async def test_quick_work_gives_no_more_than_a_slow_client_may_hold() -> None:
    made = [piece async for piece in paced(bytes(1000) for _ in range(1000))]
    assert sum(map(len, made)) == 1_000_000
    assert max(map(len, made)) <= 65536 + 1000
