"""What a mode does otherwise than the policies say, as data. Upstream's modes differ likewise."""

from enum import Enum

import msgspec


class Loopback(Enum):
    """What serves node ports on loopback addresses."""

    NONE = "none"
    KERNEL = "kernel"
    REDIRECT = "redirect"
    PROXY = "proxy"


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of one mode. The defaults are what no difference means.

    Endpoints: `one_list` gives all sources what clients outside get; `uses_remote` sends packets
    to endpoints on other nodes when a policy wants those of this node and there is none;
    `always_rejects` rejects where others drop because only other nodes have endpoints;
    `hairpin_by_address` knows a client that reaches itself by its address alone, whether or not
    a slice says that the endpoint is on this node.

    Node ports: `loopback_node_ports` is what serves them on loopback addresses,
    `link_local_node_ports` whether link-local addresses serve them, and `refuses_on_all_addresses`
    that a node port without endpoints is refused on addresses that do not serve node ports, too.

    Other packets: `rejects_undefined_ports` and `drops_unallocated` are about cluster IPs in use
    and service ranges. `binds_addresses` gives the node the addresses of services as its own: it
    may send from them, and rejects ports that no service has. With `checks_output` refusals hold
    for what the node itself sends to external addresses. `firewalls_idle` checks source ranges
    of services without endpoints as well.

    Failing endpoints: `heals` says that a Service may have connections to them healed.

    Source addresses: with `relays` connections end at the proxy, which opens others to endpoints:
    these see the node. `rewrites_loopback` is about packets from loopback addresses.
    `rewrites_by_set` also rewrites what is sent from a cluster IP where pods cannot be recognised,
    and what is sent to a cluster IP on a port that is also a node port.
    """

    one_list: bool = False
    uses_remote: bool = False
    always_rejects: bool = False
    hairpin_by_address: bool = False
    loopback_node_ports: Loopback = Loopback.NONE
    link_local_node_ports: bool = True
    refuses_on_all_addresses: bool = False
    rejects_undefined_ports: bool = False
    drops_unallocated: bool = False
    binds_addresses: bool = False
    checks_output: bool = True
    firewalls_idle: bool = True
    heals: bool = False
    relays: bool = False
    rewrites_loopback: bool = True
    rewrites_by_set: bool = False
