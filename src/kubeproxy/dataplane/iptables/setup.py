"""What rules depend on besides the services: this node, and how the operator set it up."""

import msgspec

from kubeproxy.base.inet import Family, contains
from kubeproxy.dataplane.xtables_text import pod_match
from kubeproxy.table.node import LOOPBACK, Node

INVALID_COUNTER = "ct_state_invalid_dropped_pkts"
LOCALHOST_COUNTER = "localhost_nps_accepted_pkts"
COUNTERS = (INVALID_COUNTER, LOCALHOST_COUNTER)
ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet"
BE_LIBERAL = "net.netfilter.nf_conntrack_tcp_be_liberal"

# Above so many endpoints upstream leaves comments out, and so do we.
LARGE_CLUSTER = 1000


class Options(msgspec.Struct, frozen=True):
    """What does not change while the proxy runs, but for counters that a kernel may refuse.

    `counters` are the nfacct objects that exist. `drops_invalid` is off where the kernel accepts
    TCP packets outside of the window.
    """

    masquerade_bit: int = 14
    drops_invalid: bool = True
    counters: frozenset[str] = frozenset()

    @property
    def mark(self) -> str:
        """The masquerade mark, as rules spell it."""
        return f"{1 << self.masquerade_bit:#010x}"


class Setup(msgspec.Struct, frozen=True):
    """What the rules of every service depend on.

    `from_pod` and `not_from_pod` are matches, "" when pods cannot be told from others.
    """

    from_pod: str = ""
    not_from_pod: str = ""
    masquerade_all: bool = False
    counts_localhost: bool = False


def setup_of(node: Node, options: Options) -> Setup:
    """What the rules of services depend on, on this node."""
    option, value = pod_match(node)
    return Setup(
        from_pod=f"{option} {value}" if option else "",
        not_from_pod=f"! {option} {value}" if option else "",
        masquerade_all=node.masquerade_all,
        counts_localhost=serves_localhost(node) and LOCALHOST_COUNTER in options.counters,
    )


def serves_localhost(node: Node) -> bool:
    """Whether node ports are served on 127.0.0.0/8: never on ::1."""
    if node.family is not Family.IPV4 or not node.localhost_node_ports:
        return False
    loopback = LOOPBACK[Family.IPV4]
    return any(
        contains(loopback, range_.address) or contains(range_, loopback.address)
        for range_ in node.node_port_ranges
    )


def node_port_destinations(node: Node) -> list[str]:
    """The matches of what is addressed to a node port: one, or one for each address."""
    if any(range_.length == 0 for range_ in node.node_port_ranges):
        besides = "" if serves_localhost(node) else f" ! -d {LOOPBACK[node.family]}"
        return [f"-m addrtype --dst-type LOCAL{besides}"]
    accepted = (
        address
        for address in node.addresses
        if any(contains(range_, address) for range_ in node.node_port_ranges)
        and (serves_localhost(node) or not node.is_loopback(address))
    )
    return [f"-d {address}" for address in accepted]
