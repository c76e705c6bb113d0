"""The configuration -> kernel settings. Functions on values only."""

from collections.abc import Iterator, Mapping

import msgspec

from kubeproxy.base.inet import Family
from kubeproxy.config.types import Conntrack
from kubeproxy.config.values import Duration
from kubeproxy.dataplane.iptables.setup import serves_localhost
from kubeproxy.table.node import Mode, Node

MOST_FLOWS = 1 << 20
"""What a machine with many cores gets at most, unless it is the configured minimum: each takes
memory."""
FLOWS_PER_BUCKET = 4
"""So many flows, at most, share a bucket of the hash table when it is full."""
ROUTE_LOCALNET = "net.ipv4.conf.all.route_localnet"

_PREFIX = "net.netfilter.nf_conntrack_"


class Setting(msgspec.Struct, frozen=True):
    """A sysctl and the value that it should have, or at least have.

    `leave` is what in the configuration keeps us from touching it, and `asked_by` the fields that
    ask for the value.
    """

    name: str
    value: int
    leave: str
    at_least: bool = False
    asked_by: str = ""

    def is_met(self, current: int | None) -> bool:
        """Whether a value will do; there is none when the kernel lacks the setting."""
        if current is None:
            return False
        return current >= self.value if self.at_least else current == self.value

    def lowers(self, current: int | None) -> bool:
        """Whether there will be less than there was: fewer flows, or less time for idle ones."""
        return current is not None and not self.at_least and current > self.value


def wanted_settings(conntrack: Conntrack, cores: int) -> tuple[Setting, ...]:
    """What the `conntrack` section asks for, in upstream's order."""
    return (*_limits(conntrack, cores), *_timeouts(conntrack))


def _limits(conntrack: Conntrack, cores: int) -> Iterator[Setting]:
    if conntrack.max_per_core <= 0:
        return
    flows = conntrack_max(conntrack, cores)
    leave = "conntrack.maxPerCore: 0 (--conntrack-max-per-core=0)"
    fields = "conntrack.maxPerCore, conntrack.min"
    buckets = flows // FLOWS_PER_BUCKET
    yield Setting(f"{_PREFIX}max", flows, leave, asked_by=fields)
    yield Setting(f"{_PREFIX}buckets", buckets, leave, at_least=True, asked_by=fields)


def conntrack_max(conntrack: Conntrack, cores: int) -> int:
    """How many flows may be tracked: so many a core, between the minimum and what is sane."""
    scaled = conntrack.max_per_core * cores
    return MOST_FLOWS if scaled > MOST_FLOWS else max(scaled, conntrack.min)


def _timeouts(conntrack: Conntrack) -> Iterator[Setting]:
    established = conntrack.tcp_established_timeout
    close_wait = conntrack.tcp_close_wait_timeout
    yield from _timeout("tcp_timeout_established", established, "tcpEstablishedTimeout")
    yield from _timeout("tcp_timeout_close_wait", close_wait, "tcpCloseWaitTimeout")
    if conntrack.tcp_be_liberal:
        yield Setting(f"{_PREFIX}tcp_be_liberal", 1, "conntrack.tcpBeLiberal: false")
    yield from _timeout("udp_timeout", conntrack.udp_timeout, "udpTimeout")
    yield from _timeout("udp_timeout_stream", conntrack.udp_stream_timeout, "udpStreamTimeout")


def _timeout(name: str, timeout: Duration, field: str) -> Iterator[Setting]:
    """A timeout in whole seconds. At least one: 0 would forget every connection at once."""
    if timeout > Duration():
        seconds = max(1, int(timeout.seconds))
        path = f"conntrack.{field}"
        yield Setting(_PREFIX + name, seconds, f"{path}: 0s", asked_by=path)


def wanted_at_init(mode: Mode, nodes: Mapping[Family, Node]) -> tuple[Setting, ...]:
    """What --init-only has to set for a proxy that may not do it later."""
    node = nodes.get(Family.IPV4)
    if mode is not Mode.IPTABLES or node is None or not serves_localhost(node):
        return ()
    return (Setting(ROUTE_LOCALNET, 1, "iptables.localhostNodePorts: false"),)
