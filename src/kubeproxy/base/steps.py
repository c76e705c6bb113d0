"""Long work in short steps: pure code pauses between them, and its driver goes on when it wants.

A `Steps` is a generator that yields after some thousand items at most, and returns the result.
`sync` lets other tasks run in between; tools do not pause.
"""

import heapq
from collections.abc import Generator, Sequence
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

PART = 1000
"""Items that are handled in one step: less than a millisecond."""

ENTRY = 5
"""The work for an entry without its frontends, in items."""

RUN = 8 * PART
"""Items that are sorted in one step."""


def finish(steps: Steps[T]) -> T:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


def in_order(texts: Sequence[str]) -> Steps[list[str]]:
    """The texts, sorted: in runs, which are then merged. For many: that takes twice as long."""
    runs = []
    for start in range(0, len(texts), RUN):
        runs.append(sorted(texts[start : start + RUN]))
        yield
    merged = []
    for text in heapq.merge(*runs):
        merged.append(text)
        if len(merged) % PART == 0:
            yield
    return merged
