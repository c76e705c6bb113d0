"""What rules depend on besides the services: this node, and the operator's settings."""

import msgspec

from kubeproxy.base.inet import Family, contains
from kubeproxy.dataplane.xtables_text import pod_match
from kubeproxy.table.node import LOOPBACK, NodeView
from kubeproxy.table.policy import Masquerading
from kubeproxy.table.quirks import Loopback, Quirks

QUIRKS = Quirks(
    hairpin_by_address=True,
    loopback_node_ports=Loopback.KERNEL,
    refuses_on_all_addresses=True,
    checks_output=False,
    firewalls_idle=False,
)
"""What iptables mode does otherwise than the policies say."""

INVALID_COUNTER = "ct_state_invalid_dropped_pkts"
LOCALHOST_COUNTER = "localhost_nps_accepted_pkts"
COUNTERS = (INVALID_COUNTER, LOCALHOST_COUNTER)
ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet"
BE_LIBERAL = "net.netfilter.nf_conntrack_tcp_be_liberal"

# Above so many endpoints upstream leaves comments out, and so do we.
LARGE_CLUSTER = 1000


class Options(msgspec.Struct, frozen=True):
    """What does not change while the proxy runs, except counters that a kernel may refuse.

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


class RuleSetup(msgspec.Struct, frozen=True):
    """What the rules of every service depend on.

    `from_pod` is a match, "" when pods cannot be recognised. `masqueraded` is the match of
    what is masqueraded on the way to a cluster IP: "" for all packets, None for none.
    """

    from_pod: str = ""
    masqueraded: str | None = None
    counts_localhost: bool = False


def setup_of(node: NodeView, options: Options) -> RuleSetup:
    """What the rules of services depend on, on this node."""
    option, value = pod_match(node)
    masqueraded = {
        Masquerading.NEVER: None,
        Masquerading.ALWAYS: "",
        Masquerading.UNLESS_POD: f"! {option} {value}",
    }
    return RuleSetup(
        from_pod=f"{option} {value}" if option else "",
        masqueraded=masqueraded[node.masquerading],
        counts_localhost=serves_localhost(node) and LOCALHOST_COUNTER in options.counters,
    )


def serves_localhost(node: NodeView) -> bool:
    """Whether node ports are served on 127.0.0.0/8: never on ::1."""
    loopback = LOOPBACK[Family.IPV4]
    return node.serves_loopback(QUIRKS) and any(
        contains(loopback, range_.address) or contains(range_, loopback.address)
        for range_ in node.node_port_ranges
    )


def node_port_destinations(node: NodeView) -> list[str]:
    """The matches of packets to node ports: one, or one for each address."""
    if any(range_.length == 0 for range_ in node.node_port_ranges):
        besides = "" if serves_localhost(node) else f" ! -d {LOOPBACK[node.family]}"
        return [f"-m addrtype --dst-type LOCAL{besides}"]
    return [f"-d {address}" for address in node.node_port_addresses(QUIRKS)]
