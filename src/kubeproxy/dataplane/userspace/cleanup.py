"""Removes what userspace mode left in the kernel: its table. Workers end with their daemon."""

import errno

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.leftovers import Cleanup
from kubeproxy.dataplane.userspace.rules import KEYWORD
from kubeproxy.dataplane.userspace.settings import TABLE
from kubeproxy.linux.netlink import nftables as nft
from kubeproxy.linux.netlink.attribute import text
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6, request
from kubeproxy.linux.netlink_socket import tolerating
from kubeproxy.linux.nfnetlink import Nfnetlink

NUMBER = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}


def clean_up(cleanup: Cleanup) -> None:
    """Remove the table of each family."""
    for family in Family if cleanup.has_nf_tables else ():
        named = text(nft.NFTA_TABLE_NAME, TABLE)
        with cleanup.step(), tolerating(errno.ENOENT), Nfnetlink() as netfilter:
            netfilter.commit((request(nft.NFT_MSG_DELTABLE, NUMBER[family], named),))
            cleanup.note(f"nftables table {KEYWORD[family]} {TABLE}")
