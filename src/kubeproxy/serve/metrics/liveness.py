"""/healthz of the metrics port, which only says that somebody answers, and the account of it.

The health of the proxy itself is on the health port.
"""

from kubeproxy.serve.http.answer import Answer, text
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.metrics.families import Counter, Gauge
from kubeproxy.serve.metrics.process import start_family
from kubeproxy.serve.metrics.registry import Registry

_CHECK = "ping"


class Liveness:
    """The one check that there is. `registry` is what /metrics/slis shows."""

    def __init__(self, started: float) -> None:
        self._started = started
        self.reset()

    def reset(self) -> None:
        """Begin the account anew."""
        self.registry = Registry()
        self._state = Gauge(
            "kubernetes_healthcheck", "[STABLE] Whether a check succeeded", ("type", "name")
        )
        self._total = Counter(
            "kubernetes_healthchecks_total",
            "[STABLE] Results of checks",
            ("type", "name", "status"),
        )
        self.registry.add(self._state, self._total, start_family(self._started))

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
        return Answer(200, (("Content-Type", "text/plain; charset=utf-8"),), b"ok")
