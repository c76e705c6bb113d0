"""How long to wait before a request is sent again. Time and chance are arguments."""

# The figures of client-go.
BACKOFF_INITIAL = 0.8
BACKOFF_FACTOR = 2.0
BACKOFF_LIMIT = 30.0
BACKOFF_RESET_AFTER = 120.0


class Backoff:
    """Exponential backoff with jitter."""

    def __init__(self) -> None:
        self._next = BACKOFF_INITIAL
        self._last_end: float | None = None

    def delay(self, now: float, chance: float) -> float:
        """Seconds to wait; `chance` in [0, 1) stretches them up to double.

        The first delay is short again when two minutes passed without one.
        """
        if self._last_end is not None and now - self._last_end > BACKOFF_RESET_AFTER:
            self._next = BACKOFF_INITIAL
        seconds = self._next * (1.0 + chance)
        self._next = min(self._next * BACKOFF_FACTOR, BACKOFF_LIMIT)
        self._last_end = now + seconds
        return seconds
