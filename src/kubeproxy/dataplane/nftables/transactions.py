"""Transactions in the log, at -v=9."""

from kubeproxy.base import klog
from kubeproxy.dataplane.nftables.batch import Batch
from kubeproxy.dataplane.nftables.language import Program


def log_transaction(
    wanted: Program, batch: Batch, *, intact: bool, replaces: bool = False
) -> None:
    """Log what is sent, as commands of nft."""
    if klog.enabled(9) and (batch.count or not intact):
        from kubeproxy.dataplane.nftables.transcript import transcript  # noqa: PLC0415  # rarely

        text = transcript(wanted, batch, replaces=replaces and not intact, makes=not intact)
        klog.info("Transaction", v=9, ipFamily=wanted.family.value, commands=text)
