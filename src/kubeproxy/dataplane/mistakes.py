"""Logs bugs of ours from which a full sync recovers."""

import traceback

from kubeproxy.base import klog
from kubeproxy.base.inet import Family


def log_bug(family: Family) -> None:
    """A change could not be computed, and no service port is to blame; for an `except` clause."""
    klog.error(
        "Cannot compute a change, writing everything instead; please report this",
        ipFamily=family.value,
        stack=traceback.format_exc(),
    )
