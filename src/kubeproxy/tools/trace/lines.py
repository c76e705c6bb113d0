"""Connections as text: aligned columns for people, one JSON object a line for programs."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from kubeproxy.serve.status.wire import EndpointDetail
from kubeproxy.tools.layout import Display, Span, Style, painted
from kubeproxy.tools.trace.connections import NOT_TRANSLATED, UNKNOWN, Failed, Traced

T = TypeVar("T")


class TracedLine(msgspec.Struct, frozen=True, rename="camel"):
    """A connection for programs.

    `servicePort` and `frontend` are "" when --to named an address. `endpoint` is null when the
    destination was not translated, `node` "" and `onThisNode` null when it is not known where it
    runs, `sourceRewrittenTo` null when the endpoint sees the client's own address and port.

    `failure` is "" for a new connection; `refused` or `unanswered` when an endpoint failed some,
    which are retried, and `gone` when they were reset: so many `times`. Their `client` is an
    address, and their `endpoint` "" when it is not known.
    """

    time: str
    ip_family: str
    protocol: str
    service_port: str
    client: str
    frontend: str
    destination: str
    endpoint: str | None
    node: str
    on_this_node: bool | None
    source_rewritten_to: str | None
    failure: str = ""
    times: int = 1


def json_line(traced: Traced | Failed, at: datetime) -> str:
    """The connection, or what failed, as a JSON object; times are UTC."""
    if isinstance(traced, Failed):
        return _failed_line(traced)
    detail = traced.detail
    line = TracedLine(
        time=at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        ip_family=traced.ip_family,
        protocol=traced.watched.port.protocol,
        service_port=traced.watched.name,
        client=traced.client,
        frontend=traced.frontend.kind,
        destination=traced.destination,
        endpoint=traced.endpoint,
        node=detail.node if detail else "",
        on_this_node=detail.on_this_node if detail else None,
        source_rewritten_to=traced.seen if traced.seen != traced.client else None,
    )
    return msgspec.json.encode(line).decode()


def _failed_line(failed: Failed) -> str:
    reported, detail = failed.reported, failed.detail
    line = TracedLine(
        time=reported.time,
        ip_family=reported.ip_family,
        protocol=reported.protocol,
        service_port=failed.watched.name,
        client=reported.client,
        frontend=failed.frontend.kind,
        destination=reported.destination,
        endpoint=reported.endpoint,
        node=detail.node if detail else "",
        on_this_node=detail.on_this_node if detail else None,
        source_rewritten_to=None,
        failure=reported.reason,
        times=reported.times,
    )
    return msgspec.json.encode(line).decode()


class Columns:
    """Lines under a header. A column becomes as wide as its widest text so far.

    `names` are those of the service ports; they are shown where there are several.
    """

    def __init__(self, names: Collection[str], *, colours: bool) -> None:
        self._has_several = len(names) > 1
        self._display = Display(colours=colours)
        # As wide as IPv4 needs, so that few lines stand out of line.
        self._widths = [12, 5, *self._of_service(max(map(len, names))), 21, 31, 21, 9, 0]

    def header(self) -> str:
        """The names of the columns."""
        service = self._of_service("SERVICE PORT")
        after = ("CLIENT", "DIALLED", "ENDPOINT", "NODE", "MASQUERADED")
        return self._aligned(["TIME", "PROTO", *service, *after], Style.BOLD)

    def line(self, traced: Traced | Failed, at: datetime) -> str:
        """The connection, or what failed, at local time."""
        if isinstance(traced, Failed):
            return self._failed(traced, at)
        texts = [
            _clock(at),
            traced.watched.port.protocol,
            *self._of_service(traced.watched.name or UNKNOWN),
            traced.client,
            f"{traced.frontend.kind} {traced.destination}".lstrip(),
            traced.endpoint or NOT_TRANSLATED,
            _node(traced),
            "no" if traced.seen == traced.client else f"as {traced.seen}",
        ]
        return self._aligned(texts, Style.PLAIN if traced.endpoint else Style.RED)

    def _failed(self, failed: Failed, at: datetime) -> str:
        reported = failed.reported
        texts = [
            _clock(datetime.fromisoformat(reported.time).astimezone(at.tzinfo)),
            reported.protocol,
            *self._of_service(failed.watched.name or UNKNOWN),
            reported.client,
            f"{failed.frontend.kind} {reported.destination}".lstrip(),
            reported.endpoint or UNKNOWN,
            _place(failed.detail),
            failed.what,
        ]
        return self._aligned(texts, Style.YELLOW)

    def _of_service(self, what: T) -> tuple[T, ...]:
        return (what,) if self._has_several else ()

    def _aligned(self, texts: Sequence[str], style: Style) -> str:
        self._widths = list(map(max, self._widths, map(len, texts)))
        padded = (f"{text:{width}}" for text, width in zip(texts, self._widths, strict=True))
        return painted((Span("  ".join(padded).rstrip(), style),), self._display)


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"


def _node(traced: Traced) -> str:
    return "-" if traced.endpoint is None else _place(traced.detail)


def _place(detail: EndpointDetail | None) -> str:
    if detail is None:
        return UNKNOWN
    return "this node" if detail.on_this_node else detail.node or UNKNOWN
