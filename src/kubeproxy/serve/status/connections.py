"""Connections of service ports: how many, and how many in a second. Functions on values only."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kubeproxy.base.inet import Family
from kubeproxy.serve.traffic.totals import NOTHING, Look
from kubeproxy.table.entries import ServicePortName

Looks = Mapping[Family, Look]
"""What was counted in each family; nothing where the mode does not count."""


class Connections(NamedTuple):
    """All of them, and those of a second; None when that is not known."""

    total: int | None = None
    per_second: float | None = None


def together(looks: Looks, ports: Iterable[tuple[Family, ServicePortName]]) -> Connections:
    """The connections of several service ports, added up."""
    total: int | None = None
    rate: float | None = None
    for family, name in ports:
        look = looks.get(family)
        if look is None:
            continue
        total = (total or 0) + sum(look.now.tallies.get(name, NOTHING).frontends.values())
        if look.before is not None:
            rate = (rate or 0.0) + _rate(look, name)
    return Connections(total, rate)


def busy(look: Look) -> Iterator[tuple[ServicePortName, float]]:
    """The service ports whose connections grow, and how fast."""
    if look.before is None:
        return
    for name in tuple(look.now.tallies):
        rate = _rate(look, name)
        if rate:
            yield name, rate


def _rate(look: Look, name: ServicePortName) -> float:
    """Connections per second. Most service ports are idle, and an idle one has the same tally."""
    if look.before and look.before.tallies.get(name) is look.now.tallies.get(name):
        return 0.0
    rates = look.rates(name)
    return sum(rates.frontends.values()) if rates else 0.0
