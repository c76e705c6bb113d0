"""The rest_client_* families: what the API client asks for, and how long that takes.

Upstream's names, labels and buckets. Watches are counted but not timed, as upstream has it.
"""

from kubeproxy.cluster.client.observed import Attempt, Exchange
from kubeproxy.serve.metrics.families import Counter, Histogram, MetricFamily

SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
BYTES = (64, 256, 512, *(1024 * 4**n for n in range(8)))
_OF_REQUEST = ("verb", "host")


class ClientMetrics:
    """Keeps the families of one API client; `take` is its observer."""

    def __init__(self) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "[ALPHA] HTTP requests to the API server",
            ("code", "method", "host"),
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "[ALPHA] Seconds from a request to the end of its response",
            SECONDS,
            _OF_REQUEST,
        )
        self._waited = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Seconds that requests waited for the rate limit of this client",
            SECONDS,
            _OF_REQUEST,
        )
        self._sent = Histogram(
            "rest_client_request_size_bytes",
            "[ALPHA] Bytes of request bodies",
            BYTES,
            _OF_REQUEST,
        )
        self._received = Histogram(
            "rest_client_response_size_bytes",
            "[ALPHA] Bytes of response bodies, uncompressed",
            BYTES,
            _OF_REQUEST,
        )
        self._retries = Counter(
            "rest_client_request_retries_total",
            "[ALPHA] Requests that were sent again because the server asked for it",
            ("code", *_OF_REQUEST),
        )

    def families(self) -> list[MetricFamily]:
        """All of them."""
        return [
            self._requests,
            self._seconds,
            self._waited,
            self._sent,
            self._received,
            self._retries,
        ]

    def take(self, seen: Attempt | Exchange) -> None:
        """Count what the client did."""
        if isinstance(seen, Attempt):
            self._requests.add(seen.code, seen.method, seen.host)
            if seen.retry_of:
                self._retries.add(seen.retry_of, seen.method, seen.host)
            if not seen.watch:
                self._waited.observe(seen.waited, seen.method, seen.host)
        else:
            labels = (seen.method, seen.host)
            self._seconds.observe(seen.seconds, *labels)
            self._sent.observe(seen.sent, *labels)
            if seen.received is not None:
                self._received.observe(seen.received, *labels)
