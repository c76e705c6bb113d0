"""The limits of one Service: its ports are served in their order until one is reached.

The API server accepts 20,000 ports in a Service and in a slice of 1,000 endpoints: 20 million
backends, on every node. They are counted before any of them is compiled.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from kubeproxy.base.steps import PART, Steps
from kubeproxy.cluster.model.endpoint import Slice
from kubeproxy.cluster.model.merge import PortKey
from kubeproxy.cluster.model.serviceport import ServicePort


class Size(msgspec.Struct, frozen=True):
    """The size of a Service, or of a port of it, in one IP family.

    `frontends` are addresses to dial, `backends` endpoints as slices list them. `pairs` are what
    the kernel holds for both together: backends of frontends, and source ranges of load
    balancers' addresses.
    """

    frontends: int = 0
    backends: int = 0
    pairs: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.frontends + other.frontends,
            self.backends + other.backends,
            self.pairs + other.pairs,
        )

    def fits(self) -> bool:
        """Whether it is within the limits."""
        return (
            self.frontends <= MOST.frontends
            and self.backends <= MOST.backends
            and self.pairs <= MOST.pairs
        )


MOST = Size(frontends=100_000, backends=250_000, pairs=1_000_000)
"""In one IP family. With two cores it is programmed in some seconds, with up to 500 MB."""

_MAKE = {
    "frontends": "frontends (ports x addresses)",
    "backends": "backends (ports x endpoints)",
    "pairs": "pairs of frontends and backends, and of load-balancer addresses and source ranges",
}


class Fit(msgspec.Struct, frozen=True):
    """The ports that are served, and which are not and why; "" when all are."""

    ports: tuple[ServicePort, ...]
    excess: str = ""


def within_limits(ports: tuple[ServicePort, ...], slices: Sequence[Slice]) -> Steps[Fit]:
    """The ports of a Service that are served, given the slices that have endpoints."""
    endpoints = yield from _endpoints(ports, slices)
    total = Size()
    served = 0
    for start in range(0, len(ports), PART):
        for port in ports[start : start + PART]:
            total += _size(port, endpoints[port.name, port.protocol])
            served += total.fits()
        yield
    if served == len(ports):
        return Fit(ports)
    return Fit(ports[:served], _excess(served, len(ports), total))


def surely_fit(ports: Sequence[ServicePort], slices: Sequence[Slice]) -> bool:
    """Whether an upper bound is within the limits, the usual case: then nothing is counted."""
    if not ports:
        return True
    first = ports[0]  # all ports of a Service have the same addresses, but for the node port
    balancers = len(first.load_balancer_ips)
    addresses = 2 + balancers + len(first.external_ips)
    backends = sum([len(slice_.ports) * len(slice_.endpoints) for slice_ in slices])
    sources = balancers * len(first.source_ranges or ())
    return (
        len(ports) * addresses <= MOST.frontends
        and backends <= MOST.backends
        and addresses * backends + len(ports) * sources <= MOST.pairs
    )


def _endpoints(ports: Sequence[ServicePort], slices: Sequence[Slice]) -> Steps[Counter[PortKey]]:
    """How many endpoints slices list for each of the ports."""
    wanted = {(port.name, port.protocol) for port in ports}
    found: Counter[PortKey] = Counter()
    for slice_ in slices:
        for start in range(0, len(slice_.ports), PART):
            for port in slice_.ports[start : start + PART]:
                key = (port.name, port.protocol)
                if key in wanted:
                    found[key] += len(slice_.endpoints)
            yield
    return found


def _size(port: ServicePort, endpoints: int) -> Size:
    balancers = len(port.load_balancer_ips)
    frontends = 1 + balancers + len(port.external_ips) + (port.node_port != 0)
    sources = balancers * len(port.source_ranges or ())
    return Size(frontends, endpoints, frontends * endpoints + sources)


def _excess(served: int, count: int, total: Size) -> str:
    """Which limit is exceeded, and what to do about it."""
    reasons = [
        f"{asked:,} {_MAKE[what]} where one Service may have {most:,}"
        for what, asked in msgspec.structs.asdict(total).items()
        if asked > (most := getattr(MOST, what))
    ]
    return (
        f"{served:,} of its {count:,} ports are served, in their order: it asks for"
        f" {' and '.join(reasons)} in an IP family; split it into several Services"
    )
