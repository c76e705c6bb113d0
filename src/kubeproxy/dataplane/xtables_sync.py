"""Syncs of iptables and ipvs mode: service ports that cannot be written are left out."""

import traceback
from collections.abc import Callable

from msgspec.structs import replace

from kubeproxy.base import klog
from kubeproxy.base.errors import KernelError
from kubeproxy.dataplane.contract import SyncReport, Update
from kubeproxy.dataplane.unfit import without
from kubeproxy.table.entries import Entry, ServicePortName

_ATTEMPTS = 20


class FitSync:
    """Syncs one family without what cannot be written, until a full sync or until it changes."""

    def __init__(
        self,
        attempt: Callable[[Update], SyncReport],
        at_fault: Callable[[Update, Exception], dict[ServicePortName, str]],
    ) -> None:
        self.left_out: dict[ServicePortName, tuple[Entry, str]] = {}
        self._attempt = attempt
        self._at_fault = at_fault

    def run(self, update: Update, *, knows_kernel: bool) -> SyncReport:
        """Attempt the update; after an error, again without the service ports at fault.

        Where none is at fault, it is a bug of ours. When a change was computed, of a kernel whose
        state is known, the next attempt does without: after an error everything is written.
        """
        wanted = update.table
        failed: dict[ServicePortName, str] = {}
        if not update.full:
            left_out = self.left_out.items()
            failed = {n: why for n, (was, why) in left_out if wanted.entries.get(n) == was}
        for _ in range(_ATTEMPTS):
            fit = replace(update, table=without(wanted, failed) if failed else wanted)
            try:
                report = self._attempt(fit)
            except Exception as error:
                found = self._at_fault(fit, error)
                if not found:
                    if isinstance(error, KernelError) or not knows_kernel:
                        raise
                    klog.error(
                        "Cannot compute a change, writing everything instead; please report this",
                        ipFamily=wanted.family.value,
                        stack=traceback.format_exc(),
                    )
                knows_kernel = False
                failed |= found
            else:
                self.left_out = {name: (wanted.entries[name], failed[name]) for name in failed}
                return replace(report, failed=failed | report.failed)
        raise KernelError(f"the rules of more than {_ATTEMPTS} service ports are refused")
