"""Removes the tables of nftables mode."""

import errno

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.nftables.encode import delete_table
from kubeproxy.dataplane.nftables.program import TABLE
from kubeproxy.linux.nfnetlink import Nfnetlink, Refused

_KEYWORD = {Family.IPV4: "ip", Family.IPV6: "ip6"}


def clean_up(cleanup: Cleanup) -> None:
    """Remove the table of each family."""
    for family in Family if cleanup.has_nf_tables else ():
        with cleanup.step(), Nfnetlink() as netfilter:
            try:
                netfilter.commit((delete_table(family, TABLE),))
            except Refused as error:
                if error.errno != errno.ENOENT:
                    raise
            else:
                cleanup.note(f"nftables table {_KEYWORD[family]} {TABLE}")
