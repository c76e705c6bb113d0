"""Services as tables: a row for each, or all about one."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from kubeproxy.base.inet import join
from kubeproxy.serve.status.wire import (
    EndpointDetail,
    FrontendDetail,
    PortDetail,
    ServiceDetail,
    ServiceList,
    ServiceSummary,
)
from kubeproxy.serve.status.words import connections, failures, plural, rate, settings
from kubeproxy.tools.layout import Column, Line, Span, Style, left, line, prose, right, table

_INDENT: Final = "  "
_TRAFFIC: Final = (
    Column("CONNECTIONS", right=True, leaves=2),
    Column("PER SECOND", right=True, leaves=1),
)
_LIST: Final = (
    Column("NAMESPACE/NAME", least=8, names=True),
    Column("ADDRESSES", least=11, leaves=3),
    Column("PORTS", least=10, leaves=4),
    *right("ENDPOINTS"),
)
_FRONTENDS: Final = left("FRONTEND", "ADDRESS")
_ENDPOINTS: Final = (*left("ENDPOINT"), Column("NODE", least=9), *left("STATE", "USED FOR"))

Counted = TypeVar("Counted", ServiceSummary, FrontendDetail, EndpointDetail)


def not_counted(mode: str) -> str:
    """Why there are no connections to show."""
    return f"connections are not counted in {mode} mode"


# --- all of them ------------------------------------------------------------------------------


def listing(found: ServiceList, width: int | None, *, bare: bool = False) -> Iterator[Line]:
    """A row for each Service, and below it what is wrong with it.

    Names are `bare` where all are of one namespace, which was given.
    """
    traffic = found.counts_connections
    columns = (replace(_LIST[0], title="NAME"), *_LIST[1:]) if bare else _LIST
    summary = partial(_summary, bare=bare)
    head, *rows = _table(columns, summary, found.services, width, traffic=traffic)
    yield head
    for each, row in zip(found.services, rows, strict=True):
        yield row
        for problem in each.problems:
            yield from prose(problem, width, _INDENT, Style.YELLOW)


def _table(
    columns: Sequence[Column],
    row: Callable[[Counted], Line],
    found: Sequence[Counted],
    width: int | None,
    *,
    traffic: bool,
) -> list[Line]:
    """A table, with the connections of each row where they are counted."""
    if not traffic:
        return table(columns, map(row, found), width)
    rows = [
        line(*row(each), connections(each.connections), rate(each.per_second)) for each in found
    ]
    return table((*columns, *_TRAFFIC), rows, width)


def _summary(each: ServiceSummary, *, bare: bool) -> Line:
    addresses = ",".join(dialled(each)) or "-"
    name = each.service if bare else full_name(each)
    return line(name, addresses, ",".join(each.ports), usable(each))


def remarks(found: ServiceList) -> Iterator[str]:
    """What to know of a list beside its rows."""
    shown = len(found.services)
    if not found.total:
        yield "no Service is proxied: kube-proxy status says whether something is wrong"
    elif not found.matching:
        yield f"none of {plural(found.total, 'service')} fits"
    elif shown < found.matching:
        yield f"{shown} of {plural(found.matching, 'service')} shown, as --limit and --offset say"


def full_name(each: ServiceSummary) -> str:
    """A Service as commands take it."""
    return f"{each.namespace}/{each.service}"


def dialled(each: ServiceSummary) -> Iterator[str]:
    """The addresses of a Service, its node ports as `*:PORT`."""
    yield from each.addresses
    for port in each.node_ports:
        yield f"*:{port}"


def usable(each: ServiceSummary) -> Span:
    """How many of its endpoints are used."""
    style = Style.PLAIN if each.endpoints_used else Style.YELLOW
    return Span(f"{each.endpoints_used}/{each.endpoints}", style)


# --- one of them ------------------------------------------------------------------------------


def detail(found: ServiceDetail, width: int | None) -> list[Line]:
    """Each port and family of a Service, with its frontends and endpoints."""
    head = f"   on node {found.node}, {found.mode} mode"
    lines = [line(Span(f"{found.namespace}/{found.service}", Style.BOLD), head)]
    room = None if width is None else width - len(_INDENT)
    for port in found.ports:
        lines += [line(), *prose(_title(port), width, style=Style.BOLD)]
        for problem in _problems(port):
            lines += prose(problem, width, _INDENT, Style.RED)
        traffic = found.counts_connections
        frontends = _table(_FRONTENDS, _frontend, port.frontends, room, traffic=traffic)
        lines += [line(_INDENT, *each) for each in (*frontends, *_endpoints(port, room))]
    return lines


def _title(port: PortDetail) -> str:
    name = f"{port.name} " if port.name else ""
    return f"{name}{port.protocol}, {', '.join((port.ip_family, *settings(port)))}"


def _problems(port: PortDetail) -> Iterator[str]:
    if port.not_programmed:
        yield f"NOT PROGRAMMED: {port.not_programmed}"
    for conflict in port.conflicts:
        yield f"{conflict.address} is served by {conflict.served_by}, not by {conflict.not_served}"


def _frontend(each: FrontendDetail) -> Line:
    return line(each.kind, join(each.address, each.port) if each.address else f"*:{each.port}")


def _endpoints(port: PortDetail, room: int | None) -> Iterator[Line]:
    """A row for each, and below it why a policy does not use it."""
    if not port.endpoints:
        yield line(Span("no endpoints: connections fail", Style.YELLOW))
        return
    traffic = any(each.connections is not None for each in port.endpoints)
    head, *rows = _table(_ENDPOINTS, _endpoint, port.endpoints, room, traffic=traffic)
    yield head
    for each, row in zip(port.endpoints, rows, strict=True):
        yield row
        for reason in (*_why_not(each), failures(each)):
            if reason:
                yield from prose(reason, room, _INDENT, Style.YELLOW)
    if not any(each.used for each in port.endpoints):
        yield line(Span("no endpoint is used: connections fail", Style.YELLOW))


def _endpoint(each: EndpointDetail) -> Line:
    policies = [name for name, why in _policies(each) if why == ""]
    return line(
        join(each.address, each.port),
        "this node" if each.on_this_node else each.node or "not named",
        _state(each),
        Span(" ".join(policies) or "nothing", Style.GREEN if each.used else Style.DIM),
    )


def _state(each: EndpointDetail) -> str:
    if each.terminating:
        return "terminating, serving" if each.serving else "terminating"
    return "ready" if each.ready else "not ready"


def _policies(each: EndpointDetail) -> Sequence[tuple[str, str]]:
    """The policies in force, and why each does not use the endpoint."""
    both = (("Cluster", each.not_for_cluster), ("Local", each.not_for_local))
    return [(name, why) for name, why in both if why is not None]


def _why_not(each: EndpointDetail) -> Iterator[str]:
    """Why policies do not use the endpoint; said once where all agree."""
    policies = _policies(each)
    reasons = dict.fromkeys(why for _, why in policies if why)
    for reason in reasons:
        names = [name for name, why in policies if why == reason]
        which = "not used" if len(names) == len(policies) else f"not for {' '.join(names)}"
        yield f"{which}: {reason}"
