"""Looks at the table of tracked connections every few seconds: is it full, and what was lost."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from kubeproxy.base import klog
from kubeproxy.base.conntracktable import ConntrackUse, Level, Lost, lost_between
from kubeproxy.base.errors import KernelError
from kubeproxy.linux.conntrackuse import conntrack_use

PERIOD: Final = 10.0
_READINGS: Final = 7
"""The oldest is a minute older than the newest."""
_CALM: Final = 0.8


class ConntrackWatch:
    """The readings of the last minute."""

    def __init__(self, read: Callable[[], ConntrackUse | None] = conntrack_use) -> None:
        self._read = read
        self._readings: deque[ConntrackUse] = deque(maxlen=_READINGS)
        self._logged = Level.ROOM

    def use(self) -> ConntrackUse | None:
        """The use now; None where nothing is tracked, or that cannot be read."""
        try:
            return self._read()
        except KernelError:
            return None

    @property
    def lost(self) -> Lost:
        """What was lost between the oldest reading and the newest."""
        if not self._readings:
            return Lost()
        return lost_between(self._readings[0], self._readings[-1])

    async def run(self) -> None:
        """Look, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(PERIOD)

    def look(self) -> None:
        """Take a reading; log when the table fills, and when it has room again."""
        use = self.use()
        if use is None:
            self._readings.clear()
            return
        self._readings.append(use)
        filled = f"{use.entries} of {use.limit}"
        if use.level > self._logged:
            self._logged = use.level
            if use.level is Level.FULL:
                text = "Connection tracking is full: packets of new connections are dropped"
                klog.error(text, connections=filled)
            else:
                klog.warning("Connection tracking is nearly full", connections=filled)
        elif self._logged and use.fill < _CALM:
            self._logged = Level.ROOM
            klog.info("Connection tracking has room again", connections=filled)
