"""Reports the first of a burst of events only."""

QUIET_SECONDS = 60.0


class Bursts:
    """Events less than a minute apart are one burst."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def begins(self, now: float) -> bool:
        """Record an event; whether it begins a burst."""
        last, self._last = self._last, now
        return now - last > QUIET_SECONDS
