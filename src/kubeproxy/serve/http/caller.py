"""Who has a connection, as far as shares are concerned. Functions on values only."""

from typing import NamedTuple

from kubeproxy.base.inet import Family, family_of, network, parse_address
from kubeproxy.serve.http.access import is_loopback

_LOOPBACK = "loopback"
_SITE = 64
"""An IPv6 host has as many addresses as it likes in its /64, so all of those are one client."""


class Caller(NamedTuple):
    """A client of a port: `client` stands for all addresses that one host can have at will.

    `own` is one on this node, such as the kubelet.
    """

    port: int
    client: str
    own: bool = False


def caller_of(port: int, peer: str, local: str) -> Caller:
    """The caller with that address, who dialled the address `local` of ours.

    Who has the address that it dialled is on this node: no answer to such a packet from
    elsewhere would leave it, so no connection comes about.
    """
    peer, local = peer.partition("%")[0], local.partition("%")[0]
    address = parse_address(peer)
    if address is None:  # the Unix socket, or somebody who is gone
        return Caller(port, peer)
    if is_loopback(address):
        return Caller(port, _LOOPBACK, own=True)
    own = peer == local
    if family_of(address) is Family.IPV6:
        address = network(address, _SITE).address
    return Caller(port, address, own)
