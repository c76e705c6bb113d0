"""Hostile inputs, for as long as there is time: the same ones in the same order every time.

`FUZZ_SECONDS` is how long all targets together take (20 if it is not set). An input that breaks
something is made as small as it can be, and printed, by Hypothesis. Bytes are guided by coverage:
an input that reaches a line of ours which none has reached before is a seed of later rounds.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TypeVar

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

from fuzz.hostile import mutated

TARGETS = 8
SECONDS = float(os.environ.get("FUZZ_SECONDS", "20")) / TARGETS
EXAMPLES = 50
OURS = f"{os.sep}kubeproxy{os.sep}"

_Input = TypeVar("_Input")


def fuzz(inputs: SearchStrategy[_Input], check: Callable[[_Input], None]) -> None:
    """Check input after input, round after round, until this target's share of the time is up."""
    for number in _rounds():
        _round(inputs, check, number)


def fuzz_bytes(seeds: Iterable[bytes], check: Callable[[bytes], None]) -> int:
    """The same for bytes that are made from seeds; how many seeds were found on the way."""
    corpus = list(dict.fromkeys(seeds))
    given_ = len(corpus)
    seen: set[Line] = set()

    def guided(data: bytes) -> None:
        with reached() as lines:
            check(data)
        if not lines <= seen:
            seen.update(lines)
            corpus.append(data)

    for number in _rounds():
        # A round draws from what was known when it began, so that it can be repeated in itself.
        _round(mutated(tuple(corpus)), guided, number)
    return len(corpus) - given_


def _rounds() -> Iterator[int]:
    deadline = time.monotonic() + SECONDS
    number = 0
    while number == 0 or time.monotonic() < deadline:
        yield number
        number += 1


Line = tuple[CodeType, int]


@contextmanager
def reached() -> Iterator[set[Line]]:
    """The lines of ours that are run meanwhile, by this thread."""
    lines: set[Line] = set()

    def in_frame(frame: FrameType, event: str, _: object) -> Callable[..., object]:
        if event == "line":
            lines.add((frame.f_code, frame.f_lineno))
        return in_frame

    def on_call(frame: FrameType, _event: str, _: object) -> Callable[..., object] | None:
        return in_frame if OURS in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)  # type: ignore[arg-type]  # its third argument is not looked at
    try:
        yield lines
    finally:
        sys.settrace(before)


def _round(inputs: SearchStrategy[_Input], check: Callable[[_Input], None], number: int) -> None:
    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs)
    def attempt(given_: _Input) -> None:
        check(given_)

    attempt()
