"""Reads the chains of `iptables-nft` from the kernel."""

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.xtables_chains import TABLES, Chain
from kubeproxy.linux.netlink.message import Message
from kubeproxy.linux.netlink.nfnetlink import NFPROTO_IPV4, NFPROTO_IPV6, attributes_in
from kubeproxy.linux.netlink.nftables import NFT_MSG_GETCHAIN, NFTA_CHAIN_NAME, NFTA_CHAIN_TABLE
from kubeproxy.linux.nfnetlink import Nfnetlink

_NFPROTO = {Family.IPV4: NFPROTO_IPV4, Family.IPV6: NFPROTO_IPV6}


def nft_chains(family: Family) -> tuple[Chain, ...]:
    """All chains in the tables that `iptables-nft` uses, of kube-proxy and of others."""
    with Nfnetlink() as netfilter:
        chains = map(_chain_in, netfilter.dump(NFT_MSG_GETCHAIN, _NFPROTO[family]))
        return tuple(chain for chain in chains if chain.table in TABLES)


def _chain_in(message: Message) -> Chain:
    found = attributes_in(message)
    named = (found.get(kind, b"") for kind in (NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME))
    return Chain(*(name.rstrip(b"\0").decode(errors="replace") for name in named))
