"""Every path that the daemon serves: which listeners show it, and to which clients."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Flag, auto
from functools import partial
from importlib import import_module
from types import ModuleType

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.commit import commit
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.linux.socketuser import socket_user
from kubeproxy.serve.health.server import Health
from kubeproxy.serve.http.access import SOCKET_PEER, PageAccess, is_loopback, refusal
from kubeproxy.serve.http.answer import Answer, Page, not_found, text
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.server import serve, serve_unix
from kubeproxy.serve.index import index
from kubeproxy.serve.metrics.page import Liveness, metrics
from kubeproxy.serve.metrics.registry import Registry
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.zpages import configz, flagz, statusz

_STATUS_PAGES = "kubeproxy.serve.status.pages"


class Listeners(Flag):
    """Where the daemon listens: two ports, and the Unix socket of the terminal commands."""

    HEALTH = auto()
    METRICS = auto()
    SOCKET = auto()


class PageGuard(msgspec.Struct, frozen=True):
    """Which clients may read a page, as configured; `what` is its name in refusals."""

    access: PageAccess
    what: str
    setting: str


class HttpRoute(msgspec.Struct, frozen=True):
    """One path. Parts in capitals stand for any text, and a slash behind a name for all below.

    A path with a guard is matched part by part, others exactly, as upstream does.
    """

    path: str
    page: Page
    listeners: Listeners
    guard: PageGuard | None = None

    def matches(self, request: Request) -> bool:
        """Whether the path of the request is this one."""
        if self.path.endswith("/") and self.path != "/":
            return request.path.startswith(self.path)
        if self.guard is None:
            return request.path == self.path
        wanted, parts = self.path.split("/")[1:], request.parts
        return len(wanted) == len(parts) and all(
            part == name or name.isupper() for name, part in zip(wanted, parts, strict=True)
        )


class RunFacts(msgspec.Struct, frozen=True):
    """What the pages say of this run: its configuration, its flags as text, start and node."""

    config: KubeProxyConfiguration
    gates: Gates
    flags: Mapping[str, str]
    started: float
    node: str


def routes(
    facts: RunFacts, registry: Registry, health: Health, live: Live
) -> tuple[HttpRoute, ...]:
    """The table of all paths."""
    config, gates, started = facts.config, facts.gates, facts.started
    liveness = Liveness(started)
    both = Listeners.METRICS | Listeners.SOCKET
    table = [
        HttpRoute("/healthz", health.healthz, Listeners.HEALTH),
        HttpRoute("/livez", health.livez, Listeners.HEALTH),
        HttpRoute("/metrics", partial(metrics, registry, started), both),
        HttpRoute("/metrics/slis", liveness.slis, Listeners.METRICS),
        HttpRoute("/healthz", liveness.healthz, Listeners.METRICS),
        HttpRoute("/healthz/ping", liveness.ping, Listeners.METRICS),
        HttpRoute("/proxyMode", lambda _: text(config.mode), Listeners.METRICS),
        HttpRoute("/configz", lambda _: configz(config), both),
        HttpRoute("/log", _log, Listeners.SOCKET),
        *status_routes(config, live),
    ]
    if config.enable_profiling:
        table.append(HttpRoute("/debug/", _debug, Listeners.METRICS))
    if gates.enabled("ComponentFlagz"):
        table.append(HttpRoute("/flagz", partial(flagz, facts.flags), Listeners.METRICS))
    if gates.enabled("ComponentStatusz"):
        paths = {each.path for each in table if Listeners.METRICS in each.listeners}
        table.append(
            HttpRoute(
                "/statusz",
                lambda request: statusz(paths, started, time.time(), request),
                Listeners.METRICS,
            )
        )
    shown = {each.path for each in table if Listeners.METRICS in each.listeners}
    front = partial(index, shown, facts.node, commit())
    return (*table, HttpRoute("/", front, Listeners.METRICS))


def status_routes(config: KubeProxyConfiguration, live: Live) -> list[HttpRoute]:
    """The pages of the status, in the order in which they are listed."""
    both = Listeners.METRICS | Listeners.SOCKET
    rules = PageGuard(PageAccess(config.rules_page), "the table of rules", "rulesPage")
    status = PageGuard(PageAccess(config.status_page), "the status", "statusPage")
    pages = {
        "/rules": ("show_rules", rules),
        "/rules/": ("show_rules", rules),
        "/status": ("show_daemon", status),
        "/status/services": ("show_services", status),
        "/status/rates": ("show_rates", status),
        "/status/failures": ("show_failures", status),
        "/status/explain": ("show_explanations", status),
        "/status/table": ("show_table", status),
        "/status/cluster": ("show_cluster", status),
        "/status/services/NAMESPACE/NAME": ("show_service", status),
        "/status/services/NAME": ("show_service", status),
    }
    paths = ", ".join(path for path in pages if path.startswith("/status"))
    missing = text(f"there is no such page, but these: {paths}\n", 404)
    return [
        *(
            HttpRoute(path, _loaded_later(name, live), both, guard)
            for path, (name, guard) in pages.items()
        ),
        HttpRoute("/status/", lambda _: missing, both, status),
    ]


def _loaded_later(name: str, live: Live) -> Page:
    """A page whose code is loaded for its first request, in a thread: syncs must not wait for it.

    Clients of ports are answered a few at a time, because answers take memory; those of the Unix
    socket need not wait for them.
    """
    loaded: Callable[[Request, Live], Awaitable[Answer]] | None = None

    async def page(request: Request) -> Answer:
        nonlocal loaded
        if loaded is None:
            pages = await asyncio.to_thread(import_module, _STATUS_PAGES)
            loaded = partial(_answered, pages, name)
        if request.peer == SOCKET_PEER:
            return await loaded(request, live)
        async with live.a_few:
            return await loaded(request, live)

    return page


def _log(_: Request) -> Answer:
    return text(klog.recent())


async def _answered(pages: ModuleType, name: str, request: Request, live: Live) -> Answer:
    refused: Answer | None = pages.unknown_parameter(name, request)
    if refused is not None:
        return refused
    answer: Answer = await getattr(pages, name)(request, live)
    return answer


def _debug(request: Request) -> Answer | Awaitable[Answer]:
    from kubeproxy.serve.metrics.debug import debug_page  # noqa: PLC0415  # rarely asked for

    return debug_page(request)


def router(table: Iterable[HttpRoute], listener: Listeners) -> Page:
    """What answers on a listener."""
    shown = [route for route in table if listener in route.listeners]

    def page(request: Request) -> Answer | Awaitable[Answer]:
        route = next((each for each in shown if each.matches(request)), None)
        if route is None:
            return not_found(request)
        if route.guard is None:
            return route.page(request)
        request = _identified(request)
        guard = route.guard
        refused = refusal(request, guard.access, guard.what, guard.setting)
        return route.page(request) if refused is None else refused

    return page


def _identified(request: Request) -> Request:
    """The request, with whether its client on this machine is root or our own user."""
    if request.ends is None or not is_loopback(request.peer):
        return request
    trusted = socket_user(*request.ends) in {0, os.geteuid()}
    return msgspec.structs.replace(request, trusted=trusted)


# --- the listeners ----------------------------------------------------------------------------


async def serve_metrics(table: Iterable[HttpRoute], config: KubeProxyConfiguration) -> None:
    """Answer on the metrics port until cancelled; a port in use is tried again, or an error."""

    def refused(error: ListenError) -> None:
        klog.error("starting metrics server failed", err=error, logger="UnhandledError")
        if config.bind_address_hard_fail:
            raise error

    await serve(config.metrics_bind_address, router(table, Listeners.METRICS), refused)


async def serve_health(table: Iterable[HttpRoute], config: KubeProxyConfiguration) -> None:
    """Answer on the health port until cancelled; a port in use is tried again, or an error."""
    address = config.healthz_bind_address

    def refused(error: ListenError) -> None:
        reason = f"failed to start proxy healthz on {address}: {error}"
        klog.error("Healthz server failed", err=reason)
        if config.bind_address_hard_fail:
            raise ListenError(f"healthz server failed: {reason}")

    await serve(address, router(table, Listeners.HEALTH), refused)


async def serve_socket(table: Iterable[HttpRoute], path: str) -> None:
    """Answer the terminal commands on the Unix socket until cancelled."""
    await serve_unix(path, router(table, Listeners.SOCKET))
