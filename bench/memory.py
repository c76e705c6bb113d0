"""How much memory this process has."""

import resource
from pathlib import Path


def resident() -> float:
    """Resident memory in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def peak() -> float:
    """The most it ever was, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
