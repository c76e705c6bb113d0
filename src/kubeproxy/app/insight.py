"""What the daemon shows beyond upstream's: connections of services, the rules, and its status."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubeproxy.app.metrics import Metrics
from kubeproxy.base.inet import Family
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.dataplane.contract import Dataplane
from kubeproxy.dataplane.counts import Counts
from kubeproxy.dataplane.mode import Mode
from kubeproxy.engine.sync import FamilySync
from kubeproxy.linux.socketuser import socket_user
from kubeproxy.serve.http.access import Access, is_loopback
from kubeproxy.serve.http.answer import Answer, Page
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.unixsocket import serve_unix
from kubeproxy.serve.metrics.server import find_page
from kubeproxy.serve.status.live import Live

if TYPE_CHECKING:
    from kubeproxy.serve.rulespage.view import Programmed
    from kubeproxy.serve.traffic.traffic import Traffic


def count_traffic(
    metrics: Metrics,
    config: KubeProxyConfiguration,
    mode: Mode,
    planes: Mapping[Family, Dataplane],
) -> "Traffic | None":
    """Show how many connections services have, where the mode counts them; None where it doesn't.

    What comes back is for others who want the figures, also where no metrics are wanted.
    """
    counts = {family: plane for family, plane in planes.items() if isinstance(plane, Counts)}
    if not counts:
        return None
    from kubeproxy.serve.traffic.metrics import families  # noqa: PLC0415  # not of every mode
    from kubeproxy.serve.traffic.series import Detail, Limits  # noqa: PLC0415
    from kubeproxy.serve.traffic.traffic import Traffic  # noqa: PLC0415

    traffic = Traffic(counts)
    limits = Limits(Detail(config.traffic.metrics), config.traffic.series_limit)
    endpoints = mode.counts_endpoints(config)
    metrics.registry.add(*families(traffic, limits, endpoints=endpoints), in_thread=True)
    return traffic


def show_rules(
    metrics: Metrics,
    config: KubeProxyConfiguration,
    mode: Mode,
    syncs: Mapping[Family, FamilySync],
    planes: Mapping[Family, Dataplane],
) -> None:
    """Add the page of the rules."""

    def shown() -> "Sequence[Programmed]":
        from kubeproxy.serve.rulespage.view import Programmed  # noqa: PLC0415  # when asked for

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
        from kubeproxy.serve.rulespage.page import rules  # noqa: PLC0415  # when asked for

        return rules(_identified(request), shown, Access(access))

    return page


def _identified(request: Request) -> Request:
    """The request, with whether root or our own user asks, on this machine."""
    if request.ends is None or not is_loopback(request.peer):
        return request
    trusted = socket_user(*request.ends) in {0, os.geteuid()}
    return msgspec.structs.replace(request, trusted=trusted)


def show_status(metrics: Metrics, live: Live) -> None:
    """Add the status: JSON for tools, a page for browsers."""
    access = Access(live.config.status_page)
    loaded: Callable[[Request, Live, Access], Awaitable[Answer]] | None = None

    async def page(request: Request) -> Answer:
        nonlocal loaded
        if loaded is None:
            loaded = await asyncio.to_thread(_status_pages)
        return await loaded(_identified(request), live, access)

    metrics.pages["/status"] = page
    metrics.pages["/status/"] = page


def _status_pages() -> Callable[[Request, Live, Access], Awaitable[Answer]]:
    """Loaded when somebody asks, in a thread: it takes so long that syncs would notice."""
    from kubeproxy.serve.status.pages import status  # noqa: PLC0415

    return status


async def serve_socket(metrics: Metrics, path: str) -> None:
    """Answer on the Unix socket what people may ask this daemon, until cancelled."""
    shown: dict[str, Page] = {
        at: page for at, page in metrics.pages.items() if at.startswith(("/status", "/rules"))
    }
    await serve_unix(path, find_page(shown, profiling=False))
