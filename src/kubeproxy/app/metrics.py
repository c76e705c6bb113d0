"""The metrics of one run, put together. `Metrics` is what the daemon holds."""

import time
from collections.abc import Mapping

from kubeproxy.base.inet import Family
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.mode import Mode
from kubeproxy.serve.metrics.families import About, Kind, Reading
from kubeproxy.serve.metrics.planes import figure_families, kernel_families
from kubeproxy.serve.metrics.process import process_families, python_families, start_family
from kubeproxy.serve.metrics.program import program_families
from kubeproxy.serve.metrics.proxy import ProxyMetrics
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.metrics.server import Facts, serve_metrics, standard_pages


class Metrics:
    """Observes the daemon (`observe`), and serves what it counted.

    `registry` takes families of others, and `pages` maps paths to pages, theirs too.
    """

    def __init__(
        self,
        facts: Facts,
        mode: Mode,
        families: tuple[Family, ...],
        planes: Mapping[Family, Dataplane],
    ) -> None:
        own = mode.metrics(facts.gates)
        proxy = ProxyMetrics(mode, families, time.time)
        registry = Registry()
        registry.add(*proxy.families())
        registry.add(*figure_families(own, planes))
        registry.add(*kernel_families(own, families), in_thread=True)
        registry.add(start_family(facts.started), *process_families(), *python_families())
        registry.add(*program_families(registry, facts.gates))
        self._config = facts.config
        self.observe = proxy.observe
        self.registry = registry
        self.pages = standard_pages(registry, facts)

    async def serve(self) -> None:
        """Answer on the metrics port until cancelled."""
        try:
            await serve_metrics(self.pages, self._config)
        finally:
            self.registry.close()


def health_families(answered: Mapping[tuple[str, int], int]) -> list[Reading]:
    """How the health port answered, from its count by path and status code."""

    def of(path: str) -> Reading:
        about = About(
            f"kubeproxy_proxy_{path}_total",
            Kind.COUNTER,
            f"[ALPHA] Answers of /{path}, by status code",
            ("code",),
        )
        return Reading(
            about,
            lambda: (
                ((str(code),), count)
                for (asked, code), count in sorted(answered.items())
                if asked == f"/{path}"
            ),
        )

    return [of("healthz"), of("livez")]
