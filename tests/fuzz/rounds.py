"""Hostile inputs, for as long as there is time: the same ones in the same order every time.

`FUZZ_SECONDS` is how long all targets together take (20 if it is not set). An input that breaks
something is made as small as it can be, and printed, by Hypothesis.
"""

import os
import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy

TARGETS = 7
SECONDS = float(os.environ.get("FUZZ_SECONDS", "20")) / TARGETS
EXAMPLES = 50

_Input = TypeVar("_Input")


def fuzz(inputs: SearchStrategy[_Input], check: Callable[[_Input], None]) -> None:
    """Check input after input, round after round, until this target's share of the time is up."""
    deadline = time.monotonic() + SECONDS
    number = 0
    while number == 0 or time.monotonic() < deadline:
        _round(inputs, check, number)
        number += 1


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
