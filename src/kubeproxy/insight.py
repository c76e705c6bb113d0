"""What the metrics server shows beyond upstream's: the connections of services, and the rules."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.counts import Counts
from kubeproxy.inet import Family
from kubeproxy.metrics.assembly import Metrics
from kubeproxy.serving.answer import Answer
from kubeproxy.serving.request import Request
from kubeproxy.sync import FamilySync
from kubeproxy.table.node import Mode

if TYPE_CHECKING:
    from kubeproxy.rulespage.view import Programmed
    from kubeproxy.traffic.traffic import Traffic


def count_traffic(
    metrics: Metrics, config: KubeProxyConfiguration, planes: Mapping[Family, Dataplane]
) -> "Traffic | None":
    """Show how many connections services have, where the mode counts them; None where it doesn't.

    What comes back is for others who want the figures, also where no metrics are wanted.
    """
    counts = {family: plane for family, plane in planes.items() if isinstance(plane, Counts)}
    if not counts:
        return None
    from kubeproxy.traffic.metrics import families  # noqa: PLC0415  # not of every mode
    from kubeproxy.traffic.series import Detail, Limits  # noqa: PLC0415
    from kubeproxy.traffic.traffic import Traffic  # noqa: PLC0415

    traffic = Traffic(counts)
    limits = Limits(Detail(config.traffic.metrics), config.traffic.series_limit)
    endpoints = config.mode == Mode.NFTABLES.value and config.nftables.endpoint_counters
    metrics.registry.add(*families(traffic, limits, endpoints=endpoints), in_thread=True)
    return traffic


def show_rules(
    metrics: Metrics,
    config: KubeProxyConfiguration,
    syncs: Mapping[Family, FamilySync],
    planes: Mapping[Family, Dataplane],
) -> None:
    """Add the page of the rules."""
    mode = Mode(config.mode)

    def shown() -> "Sequence[Programmed]":
        from kubeproxy.rulespage.view import Programmed  # noqa: PLC0415  # when asked for

        return [
            Programmed(sync.builder.table, sync.node, mode, sync.failed, planes[family])
            for family, sync in syncs.items()
            if sync.node is not None
        ]

    page = _rules_page(shown, config.rules_page)
    metrics.pages["/rules"] = page
    metrics.pages["/rules/"] = page


def _rules_page(
    shown: "Callable[[], Sequence[Programmed]]", access: str
) -> Callable[[Request], Answer]:
    def page(request: Request) -> Answer:
        from kubeproxy.rulespage.page import Access, rules  # noqa: PLC0415  # when asked for

        return rules(request, shown, Access(access))

    return page
