"""The rest_client_* families: what the API client asks for, and how long that takes.

Upstream's names, labels and buckets. Watches are counted but not timed, as upstream has it.
"""

from kubeproxy.cluster.client.observed import Attempt, Exchange
from kubeproxy.serve.metrics.families import Counter, Histogram, MetricFamily

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64, 256, 512, *(1024 * 4**n for n in range(8)))


def _counter(name: str, help_: str, *labels: str) -> Counter:
    return Counter(f"rest_client_{name}", f"[ALPHA] {help_}", labels)


def _histogram(name: str, help_: str) -> Histogram:
    bounds = _SECONDS if name.endswith("seconds") else _BYTES
    return Histogram(f"rest_client_{name}", f"[ALPHA] {help_}", bounds, ("verb", "host"))


class ClientMetrics:
    """Keeps the families of one API client; `take` is its observer."""

    def __init__(self) -> None:
        self._requests = _counter(
            "requests_total", "HTTP requests to the API server", "code", "method", "host"
        )
        self._retries = _counter(
            "request_retries_total",
            "Requests that were sent again because the server asked for it",
            *("code", "verb", "host"),
        )
        self._seconds = _histogram(
            "request_duration_seconds", "Seconds from a request to the end of its response"
        )
        self._waited = _histogram(
            "rate_limiter_duration_seconds",
            "Seconds that requests waited for the rate limit of this client",
        )
        self._sent = _histogram("request_size_bytes", "Bytes of request bodies")
        self._received = _histogram(
            "response_size_bytes", "Bytes of response bodies, uncompressed"
        )

    def families(self) -> list[MetricFamily]:
        """All of them."""
        times, sizes = (self._seconds, self._waited), (self._sent, self._received)
        return [self._requests, self._retries, *times, *sizes]

    def take(self, seen: Attempt | Exchange) -> None:
        """Count what the client did."""
        labels = (seen.method, seen.host)
        if isinstance(seen, Attempt):
            self._requests.add(seen.code, *labels)
            if seen.retry_of:
                self._retries.add(seen.retry_of, *labels)
            if not seen.watch:
                self._waited.observe(seen.waited, *labels)
        else:
            self._seconds.observe(seen.seconds, *labels)
            self._sent.observe(seen.sent, *labels)
            if seen.received is not None:
                self._received.observe(seen.received, *labels)
