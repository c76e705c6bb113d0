"""The `conntrack` section of the configuration -> kernel settings. Functions on values only."""

from collections.abc import Iterator

from kubeproxy.config.types import Conntrack
from kubeproxy.config.values import Duration
from kubeproxy.dataplane.sysctls import Sysctl

MOST_FLOWS = 1 << 20
"""What a machine with many cores gets at most, unless it is the configured minimum: each takes
memory."""
FLOWS_PER_BUCKET = 4
"""So many flows, at most, share a bucket of the hash table when it is full."""

_PREFIX = "net.netfilter.nf_conntrack_"


def wanted_sysctls(conntrack: Conntrack, cores: int) -> tuple[Sysctl, ...]:
    """What the `conntrack` section asks for, in upstream's order."""
    return (*_limits(conntrack, cores), *_timeouts(conntrack))


def _limits(conntrack: Conntrack, cores: int) -> Iterator[Sysctl]:
    if conntrack.max_per_core <= 0:
        return
    flows = conntrack_max(conntrack, cores)
    leave = "conntrack.maxPerCore: 0 (--conntrack-max-per-core=0)"
    fields = "conntrack.maxPerCore, conntrack.min"
    buckets = flows // FLOWS_PER_BUCKET
    yield Sysctl(f"{_PREFIX}max", flows, leave, asked_by=fields)
    yield Sysctl(f"{_PREFIX}buckets", buckets, leave, at_least=True, asked_by=fields)


def conntrack_max(conntrack: Conntrack, cores: int) -> int:
    """How many flows may be tracked: so many a core, between the minimum and what is sane."""
    scaled = conntrack.max_per_core * cores
    return MOST_FLOWS if scaled > MOST_FLOWS else max(scaled, conntrack.min)


def _timeouts(conntrack: Conntrack) -> Iterator[Sysctl]:
    established = conntrack.tcp_established_timeout
    close_wait = conntrack.tcp_close_wait_timeout
    yield from _timeout("tcp_timeout_established", established, "tcpEstablishedTimeout")
    yield from _timeout("tcp_timeout_close_wait", close_wait, "tcpCloseWaitTimeout")
    if conntrack.tcp_be_liberal:
        yield Sysctl(f"{_PREFIX}tcp_be_liberal", 1, "conntrack.tcpBeLiberal: false")
    yield from _timeout("udp_timeout", conntrack.udp_timeout, "udpTimeout")
    yield from _timeout("udp_timeout_stream", conntrack.udp_stream_timeout, "udpStreamTimeout")


def _timeout(name: str, timeout: Duration, field: str) -> Iterator[Sysctl]:
    """A timeout in whole seconds. At least one: 0 would forget every connection at once."""
    if timeout > Duration():
        seconds = max(1, int(timeout.seconds))
        path = f"conntrack.{field}"
        yield Sysctl(_PREFIX + name, seconds, f"{path}: 0s", asked_by=path)
