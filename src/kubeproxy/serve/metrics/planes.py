"""Metrics that only some modes have: figures of the dataplanes, and what the kernel counts."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Counting, Dataplane
from kubeproxy.dataplane.mode import Metric
from kubeproxy.serve.metrics.families import About, Kind, Reading


def figure_families(
    metrics: Iterable[Metric], planes: Mapping[Family, Dataplane]
) -> list[Reading]:
    """Those whose values the dataplanes have."""
    return [
        Reading(_about(metric), partial(_figures, metric.name, planes))
        for metric in metrics
        if metric.read is None
    ]


def kernel_families(metrics: Iterable[Metric], families: tuple[Family, ...]) -> list[Reading]:
    """Those whose values the kernel has: read them in a thread."""
    return [
        Reading(_about(metric), partial(metric.read, families))
        for metric in metrics
        if metric.read is not None
    ]


def _about(metric: Metric) -> About:
    kind = Kind.GAUGE if metric.is_gauge else Kind.COUNTER
    return About(metric.name, kind, f"[ALPHA] {metric.help}", metric.labels)


def _figures(
    name: str, planes: Mapping[Family, Dataplane]
) -> Iterator[tuple[tuple[str, ...], float]]:
    """The figure of each family, also before anything failed.

    Upstream's series begin with the first failure, which `increase()` then misses.
    """
    for family, plane in planes.items():
        if isinstance(plane, Counting):
            yield (family.value,), plane.figures()[name]
