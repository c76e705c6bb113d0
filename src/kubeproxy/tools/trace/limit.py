"""How much is shown, so that the terminal of a busy node stays usable."""

NO_LIMIT = 0


class Limit:
    """Lets so many pass in a second, and counts the rest; 0 lets all pass."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._passed = 0
        self._held_back = 0

    def passes(self) -> bool:
        """Whether one more may pass in this second."""
        if self._per_second == NO_LIMIT or self._passed < self._per_second:
            self._passed += 1
            return True
        self._held_back += 1
        return False

    def begin_second(self) -> int:
        """Begin a new second; how many did not pass in the one that is over."""
        held_back = self._held_back
        self._passed = self._held_back = 0
        return held_back
