"""Saying a thing once, however often it happens in a row."""

QUIET_SECONDS = 60.0


class Bursts:
    """Tells the first of many: what comes within a minute of the last one is the same burst."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def begins(self, now: float) -> bool:
        """It happens again; whether that is the first time in a while."""
        last, self._last = self._last, now
        return now - last > QUIET_SECONDS
