"""How long to wait before the next try: longer each time, with chance spreading the clients.

Time and chance are arguments. The figures are upstream's.
"""

INITIAL = 0.8
FACTOR = 2.0
LIMIT = 30.0
FORGIVEN_AFTER = 120.0


class Backoff:
    """The waits of one client that keeps trying."""

    def __init__(self) -> None:
        self._next = INITIAL
        self._last_used: float | None = None

    def delay(self, now: float, chance: float) -> float:
        """Seconds to wait before the next try; `chance` in [0, 1) stretches them up to double.

        A client that needed no wait for two minutes starts from the shortest one again.
        """
        if self._last_used is not None and now - self._last_used > FORGIVEN_AFTER:
            self._next = INITIAL
        seconds = self._next * (1.0 + chance)
        self._next = min(self._next * FACTOR, LIMIT)
        self._last_used = now + seconds
        return seconds
