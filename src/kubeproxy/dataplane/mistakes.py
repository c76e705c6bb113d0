"""Mistakes of ours that writing everything anew gets over: they are told, not hidden."""

import traceback

from kubeproxy.base import klog
from kubeproxy.base.inet import Family


def tell_of_mistake(family: Family) -> None:
    """A change could not be worked out, for no service port's fault; for an `except` clause."""
    klog.error(
        "A change cannot be worked out, writing everything instead; please report this",
        ipFamily=family.value,
        stack=traceback.format_exc(),
    )
