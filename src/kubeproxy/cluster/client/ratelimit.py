"""A token bucket: so many requests a second, with a reserve for bursts. Time is an argument."""


class TokenBucket:
    """Holds up to `burst` tokens, which come back at `qps` a second.

    A rate that is not positive means no limit at all.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._updated = 0.0

    def take(self, now: float) -> float:
        """Take a token and say how many seconds to wait before using it.

        Takers queue: each one that has to wait waits for its own token.
        """
        if self._qps <= 0:
            return 0.0
        grown = max(0.0, now - self._updated) * self._qps
        self._tokens = min(float(self._burst), self._tokens + grown) - 1.0
        self._updated = max(self._updated, now)
        return max(0.0, -self._tokens / self._qps)
