"""Removes what kube-proxy left in the kernel, in any mode, of this program or of upstream.

It reads the kernel first: programs are run only where there is something for them, so a machine
without them, or without the kernel modules, is no error. A step that fails does not stop the
others.
"""

import errno
from collections.abc import Iterable

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.mode import Mode
from kubeproxy.dataplane.modes import all_modes
from kubeproxy.linux.netlink_socket import Refused
from kubeproxy.linux.nfnetlink import Nfnetlink

# Without nfnetlink, and without nf_tables: of a message that is no batch, nfnetlink says EINVAL.
_NOT_IN_THIS_KERNEL = {errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL}


class NotAllRemoved(KernelError):
    """Something could not be removed; the rest is gone."""


def clean_up() -> tuple[str, ...]:
    """Remove the leftovers of every mode; what there was."""
    cleanup = _remove(all_modes())
    for why, what in cleanup.kept:
        klog.info(why, **what)
    if cleanup.failed:
        raise NotAllRemoved(
            f"encountered an error while tearing down rules: {'; '.join(cleanup.failed)}"
        )
    return tuple(cleanup.removed)


def remove_other_modes(mode: Mode) -> tuple[str, ...]:
    """Remove leftovers of modes that cannot run beside this one; why some of them remain.

    Upstream's modes iptables and ipvs keep each other's, and so do ours: they share chains.
    """
    others = [
        other
        for other in all_modes()
        if other.name != mode.name and not (other.uses_iptables and mode.uses_iptables)
    ]
    try:
        failed = _remove(others).failed
    except KernelError as error:
        failed = [str(error)]
    for reason in failed:
        klog.error(
            "Rules of another mode remain, and may send packets to endpoints that no longer exist:"
            " do what the error says and restart kube-proxy, or restart the node",
            err=reason,
        )
    return tuple(failed)


def _remove(modes: Iterable[Mode]) -> Cleanup:
    cleanup = Cleanup(
        has_nf_tables=_has_nf_tables(), report=lambda what: klog.info("Removed", what=what)
    )
    for mode in modes:
        mode.clean_up(cleanup)
    return cleanup


def _has_nf_tables() -> bool:
    """Whether the kernel has nf_tables; an error when this process may not change anything."""
    try:
        with Nfnetlink() as netfilter:
            netfilter.generation()
    except Refused as error:
        if error.errno in _NOT_IN_THIS_KERNEL:
            return False
        if error.errno == errno.EPERM:
            raise KernelError(
                "nothing was removed: that needs CAP_NET_ADMIN in this network namespace"
            ) from error
        raise
    return True
