"""The guest's clocks: they count instructions, because the emulator's do."""

import time


def now() -> int:
    """Instructions of the processor since it was switched on, whatever they were for."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def own() -> int:
    """Instructions of this thread: while it waits, none are counted."""
    return time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
