"""How a step says what it found: a line for each check, and one for the end of a part."""

import contextlib
import os
import time
import traceback
from collections.abc import Iterator

from kernels.results import Line, State, render

_MOST = 600
"""Characters of what went wrong."""


class Report:
    """A part, from its beginning to its end."""

    def __init__(self, part: str) -> None:
        self._part = part
        self._passed = 0
        self._failed = 0
        say(Line(part=part))

    @contextlib.contextmanager
    def check(self, name: str) -> Iterator[None]:
        """A check fails when it raises; the next one is run all the same."""
        started = time.monotonic()
        state, detail = State.PASSED, ""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
            traceback.print_exc()
            state, detail = State.FAILED, f"{name}: {words_of(error)}"
        self.found(name, state, detail, time.monotonic() - started)

    def found(self, name: str, state: State, detail: str = "", seconds: float = 0.0) -> None:
        """How a check ended."""
        self._passed += state is State.PASSED
        self._failed += state is State.FAILED
        say(Line(self._part, name, state, detail, round(seconds, 1)))

    def end(self, reason: str = "") -> None:
        """The part is complete, or was not run for that reason."""
        state = State.FAILED if self._failed else State.PASSED
        if not self._passed and not self._failed:
            state = State.NOT_RUN
        say(Line(self._part, state=state, detail=reason))


@contextlib.contextmanager
def reporting(part: str) -> Iterator[Report]:
    """A part with all that is checked inside; what raises beside its checks fails it."""
    report = Report(part)
    try:
        yield report
    except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
        traceback.print_exc()
        report.found("the rest", State.FAILED, words_of(error))
    report.end()


def not_run(part: str, reason: str) -> None:
    """A part that cannot be run here."""
    Report(part).end(reason)


def say(line: Line) -> None:
    """Write it where the first process reads; others may have left a line unfinished there."""
    os.write(1, f"\n{render(line)}\n".encode())


def words_of(error: BaseException) -> str:
    """What went wrong, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _MOST else text[:_MOST] + "..."
