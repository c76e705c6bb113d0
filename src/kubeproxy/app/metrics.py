"""The metrics of one run, put together."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Counts, Dataplane
from kubeproxy.dataplane.mode import Mode
from kubeproxy.serve.metrics.families import Kind, Reading, Series, reading
from kubeproxy.serve.metrics.planes import figure_families, kernel_families
from kubeproxy.serve.metrics.process import (
    process_families,
    program_families,
    python_families,
    start_family,
)
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.routes import RunFacts

if TYPE_CHECKING:
    from kubeproxy.serve.traffic.traffic import Traffic


def registry_of(facts: RunFacts, mode: Mode, planes: Mapping[Family, Dataplane]) -> Registry:
    """The families about dataplanes, the process and the program; others are added to it."""
    own = mode.metrics(facts.gates)
    registry = Registry()
    registry.add(*figure_families(own, planes))
    registry.add(*kernel_families(own, tuple(planes)), in_thread=True)
    registry.add(start_family(facts.started), *process_families(), *python_families())
    registry.add(*program_families(registry, facts.gates))
    return registry


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
    from kubeproxy.serve.traffic.metrics import families  # noqa: PLC0415  # not of every mode
    from kubeproxy.serve.traffic.series import Detail, SeriesLimits  # noqa: PLC0415
    from kubeproxy.serve.traffic.traffic import Traffic  # noqa: PLC0415

    traffic = Traffic(counts)
    limits = SeriesLimits(Detail(config.traffic.metrics), config.traffic.series_limit)
    endpoints = mode.counts_endpoints(config)
    registry.add(*families(traffic, limits, endpoints=endpoints), in_thread=True)
    return traffic


def health_families(answered: Mapping[tuple[str, int], int]) -> list[Reading]:
    """How the health port answered, from its count by path and status code."""

    def of(path: str) -> Reading:
        def read() -> Iterator[Series]:
            for (asked, code), count in sorted(answered.items()):
                if asked == f"/{path}":
                    yield (str(code),), count

        help_ = f"[ALPHA] Answers of /{path}, by status code"
        return reading(f"kubeproxy_proxy_{path}_total", Kind.COUNTER, help_, read, "code")

    return [of("healthz"), of("livez")]
