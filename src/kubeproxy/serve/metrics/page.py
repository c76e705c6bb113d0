"""`/metrics`, and the health of the metrics port: that the process answers, with its own metrics.

The health of the proxy itself is on the health port.
"""

import zlib
from collections.abc import AsyncIterator

from kubeproxy.serve.http.answer import Answer, text
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.families import Series, reading
from kubeproxy.serve.metrics.process import start_family
from kubeproxy.serve.metrics.registry import Registry

_FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_GZIP = 16 + zlib.MAX_WBITS
_CHECK = "ping"
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)


def metrics(registry: Registry, started: float, request: Request) -> Answer:
    """All families, or the one that the query names; `started` is when the process did."""
    only = request.query.get("name[]")
    pieces = registry.expose({only} if only else ())
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


class Liveness:
    """The only check of the metrics port, and how often it was made."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._checks = 0
        self._registry = Registry()
        self._registry.add(
            reading(
                "kubernetes_healthcheck",
                "[STABLE] Whether a check succeeded",
                lambda: self._counted(("healthz", _CHECK), 1),
                *("type", "name"),
            ),
            reading(
                "kubernetes_healthchecks_total",
                "[STABLE] Results of checks",
                lambda: self._counted(("healthz", _CHECK, "success"), self._checks),
                *("type", "name", "status"),
            ),
            start_family(started),
        )

    def _counted(self, labels: tuple[str, ...], value: int) -> list[Series]:
        return [(labels, value)] if self._checks else []

    def healthz(self, request: Request) -> Answer:
        """All checks; `verbose` shows each, `exclude` leaves one out."""
        left_out = request.query.get("exclude", "")
        lines = [f"[+]{_CHECK} ok"]
        if left_out == _CHECK:
            lines = [f"[+]{_CHECK} excluded: ok"]
        else:
            self._checks += 1
        if left_out and left_out != _CHECK:
            lines.append(
                f'warn: some health checks cannot be excluded: no matches for "{left_out}"'
            )
        if "verbose" not in request.query:
            return text("ok")
        return text("\n".join((*lines, "healthz check passed", "")))

    def ping(self, _: Request) -> Answer:
        """The check alone."""
        return Answer(200, _TEXT, b"ok")

    def slis(self, request: Request) -> Answer:
        """The results of the check as metrics; DELETE sets them back."""
        if request.method == "DELETE":
            self._checks = 0
            return Answer(200, _TEXT, b"metrics reset\n")
        return metrics(self._registry, self._started, request)
