"""Changes that others made to the rules of a family, and that were repaired: how many, by whom.

The first one is logged at once, then there is a line every ten seconds with their number.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from kubeproxy.base import klog
from kubeproxy.base.inet import Family
from kubeproxy.base.writer import Writer, writer_text
from kubeproxy.engine.repairs import OfLate
from kubeproxy.linux.processes import with_process

LATE: Final = 60.0
"""Seconds."""
PERIOD: Final = 10.0
_MOST_TIMES: Final = 10_000
_MOST_NAMES: Final = 8
OTHERS: Final = "others"
"""The name of all programs beyond the first eight."""


class ForeignChanges:
    """Those of one family. `clock` never jumps."""

    def __init__(self, family: Family, clock: Callable[[], float] | None = None) -> None:
        self.programs: Counter[str] = Counter({"": 0})
        """How many of each program, by its name; "" is that of unknown ones."""
        self._family = family
        self._clock = clock
        self._times: deque[float] = deque(maxlen=_MOST_TIMES)
        self._writer: Writer | None = None
        self._unlogged = 0
        self._since = 0.0
        self._due: asyncio.TimerHandle | None = None

    def of_late(self) -> OfLate:
        """The changes of the last minute."""
        total = self.programs.total()
        if not self._times:
            return OfLate(total)
        now = self._now()
        recent = [at for at in self._times if now - at <= LATE]
        seconds = recent[-1] - recent[0] if recent else 0.0
        return OfLate(total, len(recent), seconds, now - self._times[-1], self._writer)

    def add(self, writer: Writer | None) -> None:
        """Others have changed something; it is repaired."""
        now = self._now()
        writer = with_process(writer) if writer else None
        if writer or not self._times or now - self._times[-1] > LATE:
            self._writer = writer  # the last one that is known is still meant
        self._times.append(now)
        name = writer.name if writer else ""
        is_new = name not in self.programs and len(self.programs) > _MOST_NAMES
        self.programs[OTHERS if is_new else name] += 1
        if self._due is None:
            klog.warning(
                "The kernel's rules were changed by another program, repairing",
                ipFamily=self._family.value,
                by=writer_text(writer),
            )
            self._wait_more(now)
        else:
            self._unlogged += 1

    def _wait_more(self, now: float) -> None:
        self._since = now
        self._due = asyncio.get_running_loop().call_later(PERIOD, self._log_more)

    def _log_more(self) -> None:
        """Log what came since the last line; quiet is the end of it."""
        self._due = None
        if not self._unlogged:
            return
        now = self._now()
        klog.warning(
            "The kernel's rules are changed by other programs again and again",
            ipFamily=self._family.value,
            repairs=self._unlogged,
            seconds=round(now - self._since),
            lastBy=writer_text(self._writer),
        )
        self._unlogged = 0
        self._wait_more(now)

    def _now(self) -> float:
        return self._clock() if self._clock else asyncio.get_running_loop().time()
