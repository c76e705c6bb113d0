"""The figures: what is measured, what of it is shown, and how several runs become one."""

import statistics
from collections.abc import Iterable, Sequence

import msgspec


class Metric(msgspec.Struct, frozen=True):
    """One figure of a run; of those that are compared, less is better."""

    key: str
    label: str
    unit: str
    digits: int = 1
    compared: bool = True
    """Whether a ratio says which proxy is better."""


METRICS = (
    Metric("cold", "process start to kernel programmed", "s", 2),
    Metric("cold_cpu", "  CPU for it", "s", 2),
    Metric("change_p50", "one endpoint replaced, p50", "ms"),
    Metric("change_p99", "one endpoint replaced, p99", "ms"),
    Metric("resize_p50", "one endpoint more or less, p50", "ms"),
    Metric("resize_p99", "one endpoint more or less, p99", "ms"),
    Metric("change_cpu", "  CPU for one", "ms"),
    Metric("change_bytes", "  kernel notifications for one", "bytes", 0),
    Metric("burst", "1,000 changes in a burst", "s", 2),
    Metric("burst_cpu", "  CPU for it", "s", 2),
    Metric("burst_transactions", "  transactions", "", 0, compared=False),
    Metric("rolling", "rolling update of 10 % of all endpoints", "s", 2),
    Metric("rolling_behind", "  of which after the last event was sent", "s", 2),
    Metric("rolling_cpu", "  CPU for it", "s", 2),
    Metric("rolling_transactions", "  transactions", "", 0, compared=False),
    Metric("restart", "restart with nothing changed, until idle", "s", 2),
    Metric("restart_cpu", "  CPU for it", "s", 2),
    Metric("restart_transactions", "  transactions", "", 0, compared=False),
    Metric("resident", "resident memory after startup", "MB", 0),
    Metric("proportional", "  proportional (PSS)", "MB", 0),
    Metric("peak", "peak resident memory", "MB", 0),
    Metric("largest", "  the largest process, of the proxy and its programs", "MB", 0),
    Metric("rest_cpu", "CPU when idle, of a core", "%", 2),
)

PATH_METRICS = (
    Metric("rate", "new connections a second, two clients", "1/s", 0, compared=False),
    Metric("first_p50", "first packet to its reply, p50", "us", 0, compared=False),
    Metric("first_p99", "first packet to its reply, p99", "us", 0, compared=False),
    Metric("stream", "one established connection", "MB/s", 0, compared=False),
)
"""Of the data path, where more of some is better, and the first way is no proxy at all."""


class Run(msgspec.Struct, frozen=True):
    """What one run of one proxy on one cluster gave; `load` is the machine's before it.

    A run that came to no end has a `problem`, and no figures.
    """

    proxy: str
    size: str
    number: int
    load: float = 0.0
    figures: dict[str, float] = {}
    problem: str = ""


def quantile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed: one of them, not a mixture."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def medians(runs: Iterable[Run]) -> dict[str, float]:
    """The median of each figure over the runs that have it."""
    found: dict[str, list[float]] = {}
    for run in runs:
        for key, value in run.figures.items():
            found.setdefault(key, []).append(value)
    return {key: statistics.median(values) for key, values in found.items()}


def ratio(ours: float, peers: float) -> float | None:
    """How many times ours the peer's is; None when that says nothing."""
    return peers / ours if ours > 0 and peers > 0 else None
