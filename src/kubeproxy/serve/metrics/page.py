"""`/metrics`: families as the text that Prometheus reads."""

import zlib
from collections.abc import AsyncIterator

from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.registry import Registry

_FORMAT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_GZIP = 16 + zlib.MAX_WBITS


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
