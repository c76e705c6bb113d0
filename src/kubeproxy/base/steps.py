"""Long work in short steps. Pure code stops between them, and who drives it decides what then.

A `Steps` is a generator that yields whenever it has seen to some thousand items at most, and that
returns what it comes to. `sync` lets others have their turn in between; tools do not stop.
"""

import heapq
from collections.abc import Generator, Sequence
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[None, None, T]

PART = 1000
"""So many items are seen to in one step: less than a millisecond."""

ENTRY = 5
"""An entry is as much work as so many items, beside its frontends."""

RUN = 8 * PART
"""So many are sorted in one step."""


def finish(steps: Steps[T]) -> T:
    """What the steps come to, without a pause."""
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
