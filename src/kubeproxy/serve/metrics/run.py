"""The families of one run, put together."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kubeproxy.base.inet import Family
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Counting, Counts, Dataplane, FastPath
from kubeproxy.dataplane.mode import Metric, Mode
from kubeproxy.serve.metrics.families import Reading, Series, reading
from kubeproxy.serve.metrics.process import (
    process_families,
    program_families,
    python_families,
    start_family,
)
from kubeproxy.serve.metrics.registry import Registry

if TYPE_CHECKING:
    from kubeproxy.serve.healing.record import HealingRecord, LeftOut
    from kubeproxy.serve.traffic.traffic import Traffic


def make_registry(
    gates: Gates, started: float, mode: Mode, planes: Mapping[Family, Dataplane]
) -> Registry:
    """The families of the mode, the process and the program; others are added to it."""
    registry = Registry()
    for metric in mode.metrics(gates):
        registry.add(mode_family(metric, planes), in_thread=metric.read is not None)
    registry.add(start_family(started), *process_families(), *python_families())
    registry.add(*program_families(registry, gates))
    return registry


def mode_family(metric: Metric, planes: Mapping[Family, Dataplane]) -> Reading:
    """A family that only some modes have: figures of the dataplanes, or what the kernel counts.

    A figure is there before anything failed. Upstream's series begin with the first failure, which
    `increase()` then misses.
    """

    def figures() -> Iterable[Series]:
        for family, plane in planes.items():
            if isinstance(plane, Counting):
                yield (family.value,), plane.figures()[metric.name]

    read = figures if metric.read is None else partial(metric.read, tuple(planes))
    return reading(metric.name, f"[ALPHA] {metric.help}", read, *metric.labels)


def count_traffic(
    config: KubeProxyConfiguration,
    mode: Mode,
    planes: Mapping[Family, Dataplane],
    registry: Registry,
) -> "Traffic | None":
    """Add the connections of services, where the mode counts them; None where it does not.

    The figures come back for the status, which shows them even where no metrics are wanted.
    """
    counts = {family: plane for family, plane in planes.items() if isinstance(plane, Counts)}
    if not counts:
        return None
    from kubeproxy.serve.traffic.series import Detail, SeriesLimits  # noqa: PLC0415
    from kubeproxy.serve.traffic.traffic import Traffic, families  # noqa: PLC0415  # not always

    traffic = Traffic(counts)
    limits = SeriesLimits(Detail(config.traffic.metrics), config.traffic.series_limit)
    endpoints = mode.counts_endpoints(config)
    registry.add(*families(traffic, limits, endpoints=endpoints), in_thread=True)
    return traffic


def record_failures(
    config: KubeProxyConfiguration,
    mode: Mode,
    clock: Callable[[], float],
    left_out: "Callable[[], Mapping[Family, LeftOut]]",
    registry: Registry,
) -> "HealingRecord | None":
    """Add the failures of endpoints, where the mode heals them; None where it does not."""
    if not mode.quirks.heals:
        return None
    from kubeproxy.serve.healing.record import HealingRecord  # noqa: PLC0415  # not of every mode
    from kubeproxy.serve.traffic.series import Detail, SeriesLimits  # noqa: PLC0415  # the same

    limits = SeriesLimits(Detail(config.traffic.metrics), config.traffic.series_limit)
    record = HealingRecord(limits, clock, left_out)
    registry.add(*record.families())
    return record


def watch_fast_path(path: FastPath | None, registry: Registry) -> None:
    """Add the fast path, where the mode has one."""
    if path is None:
        return
    from kubeproxy.serve.metrics.fastpath import (  # noqa: PLC0415  # not of every mode
        connections_family,
        state_families,
    )

    registry.add(*state_families(path))
    registry.add(connections_family(path), in_thread=True)


def health_families(answered: Mapping[tuple[str, int], int]) -> list[Reading]:
    """How the health port answered, from its count by path and status code."""

    def read(path: str) -> Iterable[Series]:
        return (((str(code),), n) for (of, code), n in sorted(answered.items()) if of == path)

    return [
        reading(
            f"kubeproxy_proxy_{path[1:]}_total",
            f"[ALPHA] Answers of {path}, by status code",
            partial(read, path),
            "code",
        )
        for path in ("/healthz", "/livez")
    ]
