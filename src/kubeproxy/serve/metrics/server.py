"""The metrics server: which paths it has, and what each of them answers.

Paths are a plain mapping to pages, so that others add their own. Answers are upstream's, but for
texts that upstream itself calls unstable.
"""

import json
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from functools import partial

import msgspec

from kubeproxy.base import klog
from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.document import to_document
from kubeproxy.config.gates import Gates
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.http.answer import JSON, Answer, Page, not_found, text
from kubeproxy.serve.http.listening import ListenError
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.http.server import serve
from kubeproxy.serve.metrics.liveness import Liveness
from kubeproxy.serve.metrics.negotiation import Object, negotiate
from kubeproxy.serve.metrics.program import python_version
from kubeproxy.serve.metrics.registry import Registry

_FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_GZIP = 16 + zlib.MAX_WBITS
_UNSTABLE = (
    "Warning: This page is for people who look for a fault. Its layout is not for programs:"
    " it may change at any time."
)
_DEBUG = "/debug/"
_UNLISTED = ("/statusz",)


class Facts(msgspec.Struct, frozen=True):
    """What the pages tell of this run: its configuration, its flags as text, and its start."""

    config: KubeProxyConfiguration
    gates: Gates
    flags: Mapping[str, str]
    started: float


def standard_pages(registry: Registry, facts: Facts) -> dict[str, Page]:
    """The pages that upstream has, by path; add to the mapping what else there should be."""
    config = facts.config
    liveness = Liveness(facts.started)
    pages: dict[str, Page] = {
        "/metrics": partial(_metrics, registry, facts.started),
        "/metrics/slis": partial(_slis, liveness, facts.started),
        "/healthz": liveness.healthz,
        "/healthz/ping": liveness.ping,
        "/proxyMode": lambda _: text(config.mode),
        "/configz": lambda _: _configz(config),
    }
    if facts.gates.enabled("ComponentFlagz"):
        pages["/flagz"] = partial(_flagz, facts.flags)
    if facts.gates.enabled("ComponentStatusz"):
        pages["/statusz"] = partial(_statusz, pages, facts)
    return pages


def find_page(pages: Mapping[str, Page], *, profiling: bool) -> Page:
    """The page of a request: by its exact path, or of those that look into the process.

    A page whose path ends in a slash answers for all below it too.
    """

    def page(request: Request) -> Answer | Awaitable[Answer]:
        if profiling and request.path.startswith(_DEBUG):
            from kubeproxy.serve.metrics.debug import debug_page  # noqa: PLC0415  # hardly ever asked for

            return debug_page(request)
        below = f"/{request.path[1:].partition('/')[0]}/"
        return pages.get(request.path, pages.get(below, not_found))(request)

    return page


async def serve_metrics(pages: Mapping[str, Page], config: KubeProxyConfiguration) -> None:
    """Answer on the metrics port until cancelled; a port in use is tried again, or an error."""

    def refused(error: ListenError) -> None:
        klog.error("starting metrics server failed", err=error, logger="UnhandledError")
        if config.bind_address_hard_fail:
            raise error

    page = find_page(pages, profiling=config.enable_profiling)
    await serve(config.metrics_bind_address, page, refused)


# --- the pages --------------------------------------------------------------------------------


def _metrics(registry: Registry, started: float, request: Request) -> Answer:
    only = request.query.get("name[]")
    return _exposed(registry.expose({only} if only else ()), started, request)


def _slis(liveness: Liveness, started: float, request: Request) -> Answer:
    if request.method == "DELETE":
        liveness.reset()
        return Answer(200, (("Content-Type", "text/plain; charset=utf-8"),), b"metrics reset\n")
    return _exposed(liveness.registry.expose(), started, request)


def _exposed(pieces: AsyncIterator[str], started: float, request: Request) -> Answer:
    headers = [("Content-Type", _FORMAT), ("Process-Start-Time-Unix", str(int(started)))]
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers.insert(0, ("Content-Encoding", "gzip"))
        return Answer(200, tuple(headers), _zipped(pieces))
    return Answer(200, tuple(headers), _encoded(pieces))


async def _encoded(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield piece.encode()


async def _zipped(pieces: AsyncIterator[str]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(1, wbits=_GZIP)
    async for piece in pieces:
        yield packer.compress(piece.encode())
    yield packer.flush()


def _configz(config: KubeProxyConfiguration) -> Answer:
    document = {"kubeproxy.config.k8s.io": to_document(config)}
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return Answer(200, JSON, body.encode())


def _flagz(flags: Mapping[str, str], request: Request) -> Answer:
    lines = [f"{name}={value}" for name, value in flags.items()]
    return _component(request, "Flagz", lines, {"flags": flags})


def _statusz(pages: Mapping[str, Page], facts: Facts, request: Request) -> Answer:
    started, up = facts.started, int(time.time() - facts.started)
    version = KUBERNETES_VERSION.removeprefix("v")
    emulated = ".".join(version.split(".")[:2])
    paths = sorted(p for p in pages if p.count("/") == 1 and p not in _UNLISTED)
    hours, minutes, seconds = up // 3600, up // 60 % 60, up % 60
    lines = [
        "",
        f"Started: {time.strftime('%a %b %d %H:%M:%S %Z %Y', time.localtime(started))}",
        f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
        f"Python version: {python_version()}",
        f"Binary version: {version}",
        f"Emulation version: {emulated}",
        f"Paths: {' '.join(paths)}",
    ]
    fields: Object = {
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "uptimeSeconds": up,
        "goVersion": f"python{python_version()}",
        "binaryVersion": version,
        "emulationVersion": emulated,
        "paths": paths,
    }
    return _component(request, "Statusz", lines, fields)


def _component(request: Request, kind: str, lines: list[str], fields: Object) -> Answer:
    shown = "\n".join(("", f"kube-proxy {kind.lower()}", _UNSTABLE, *lines, ""))
    return negotiate(request.headers.get("accept", ""), kind, shown, fields)
