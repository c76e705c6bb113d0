"""/healthz of the metrics port, which only says that the process answers, and /metrics/slis.

The health of the proxy itself is on the health port.
"""

from kubeproxy.serve.http.answer import Answer, text
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.families import Counter, Gauge
from kubeproxy.serve.metrics.page import metrics
from kubeproxy.serve.metrics.process import start_family
from kubeproxy.serve.metrics.registry import Registry

_CHECK = "ping"
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)


class Liveness:
    """The only check of the metrics port, and how often it was made."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._reset()

    def _reset(self) -> None:
        self._registry = Registry()
        self._state = Gauge(
            "kubernetes_healthcheck", "[STABLE] Whether a check succeeded", ("type", "name")
        )
        self._total = Counter(
            "kubernetes_healthchecks_total",
            "[STABLE] Results of checks",
            ("type", "name", "status"),
        )
        self._registry.add(self._state, self._total, start_family(self._started))

    def healthz(self, request: Request) -> Answer:
        """All checks; `verbose` shows each, `exclude` leaves one out."""
        left_out = request.query.get("exclude", "")
        lines = [f"[+]{_CHECK} ok"]
        if left_out == _CHECK:
            lines = [f"[+]{_CHECK} excluded: ok"]
        else:
            self._state.set(1, "healthz", _CHECK)
            self._total.add("healthz", _CHECK, "success")
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
            self._reset()
            return Answer(200, _TEXT, b"metrics reset\n")
        return metrics(self._registry, self._started, request)
