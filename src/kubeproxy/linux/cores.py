"""How many cores this machine has, which may be more than this process may use."""

import os
from pathlib import Path

_ONLINE = Path("/sys/devices/system/cpu/online")


def online_cores(path: Path = _ONLINE) -> int:
    """The cores that are online; those that we may use where that cannot be found out."""
    try:
        return count_cores(path.read_text())
    except (OSError, ValueError):
        return len(os.sched_getaffinity(0))


def count_cores(text: str) -> int:
    """How many numbers a list such as `0-3,5` has; ValueError when it is none."""
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count
