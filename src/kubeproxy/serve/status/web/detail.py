"""One Service: its frontends, and its endpoints with the reasons why some are not used."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.base.inet import join
from kubeproxy.serve.status.web.asking import form
from kubeproxy.serve.status.web.document import document, heading
from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Markup,
    TableColumn,
    address,
    badge,
    element,
    row,
    table,
    together,
    trusted,
)
from kubeproxy.serve.status.web.overview import traffic
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail, ServiceDetail
from kubeproxy.serve.status.words import connections, count, plural, rate, settings

_ROWS: Final = 200
_COUNTS: Final = (TableColumn("Connections", "number"), TableColumn("Per second", "number"))
_FRONTENDS: Final = (TableColumn("Frontend"), TableColumn("Address", "address"), *_COUNTS)
_ENDPOINTS: Final = (
    TableColumn("Endpoint", "address"),
    TableColumn("Node"),
    TableColumn("Condition"),
    TableColumn("Used"),
    *_COUNTS,
)


def service_page(detail: ServiceDetail) -> Iterator[Markup]:
    """The page of a Service."""

    def main() -> Iterator[Markup]:
        yield _about(detail)
        yield from ports(detail)

    title = f"{detail.namespace}/{detail.service} on {detail.node}"
    return document(title, heading(detail.node), main())


def ports(detail: ServiceDetail) -> Iterator[Markup]:
    """The service ports, which the script refreshes."""
    yield trusted('<section id="service" data-refresh="service">')
    for port in detail.ports:
        yield from _port(port, counted=detail.counts_connections)
    yield trusted("</section>")


def _about(detail: ServiceDetail) -> Markup:
    """What is above the ports and not refreshed: the name, the chart, the explain form."""
    name = f"{detail.namespace}/{detail.service}"
    rules = address("rules", detail.namespace, detail.service)
    words = "On this node, over the last two minutes."
    return element(
        "section",
        element("h2", element("span", f"{detail.namespace}/"), detail.service),
        element(
            "div",
            traffic(name, _total(detail), words) if detail.counts_connections else NOTHING,
            element(
                "article",
                element("h2", "Explain a packet to it"),
                form("", name),
                element(
                    "p",
                    element("a", "The rules", href=rules),
                    " show what was written to the kernel for it.",
                ),
                class_="card",
            ),
            class_="cards",
        ),
        id="about",
    )


def _total(detail: ServiceDetail) -> float | None:
    rates = [
        frontend.per_second
        for port in detail.ports
        for frontend in port.frontends
        if frontend.per_second is not None
    ]
    return sum(rates) if rates else None


def _kept(columns: Sequence[TableColumn], *, counted: bool) -> Sequence[TableColumn]:
    """The columns without those of connections, where none are counted."""
    return columns if counted else columns[: -len(_COUNTS)]


def _port(port: PortDetail, *, counted: bool) -> Iterator[Markup]:
    title = f"{port.name} {port.protocol}".strip()
    yield together(
        (
            trusted('<article class="card">'),
            element("h3", title, " ", element("small", port.ip_family)),
            _troubles(port),
            element("ul", *(element("li", text) for text in settings(port)), class_="settings"),
        )
    )
    columns = _kept(_FRONTENDS, counted=counted)
    frontends = (row(columns, _frontend(each)) for each in port.frontends)
    yield from table(f"Frontends of {title}, {port.ip_family}", columns, frontends)
    used = sum(endpoint.used for endpoint in port.endpoints)
    yield element("p", f"{plural(len(port.endpoints), 'endpoint')}, {used} used")
    if port.endpoints:
        each_counted = any(each.connections is not None for each in port.endpoints)
        columns = _kept(_ENDPOINTS, counted=each_counted)
        endpoints = (
            row(columns, _endpoint(each), None if each.used else "unused")
            for each in port.endpoints[:_ROWS]
        )
        yield from table(f"Endpoints of {title}, {port.ip_family}", columns, endpoints)
    more = len(port.endpoints) - _ROWS
    if more > 0:
        yield element("p", f"{count(more)} more: the JSON (?format=json) has all")
    yield trusted("</article>")


def _troubles(port: PortDetail) -> Markup:
    claims = [
        f"{each.address} is served by {each.served_by}, and not by {each.not_served}: give one of"
        " them another address"
        for each in port.conflicts
    ]
    refused = f"The kernel does not have it: {port.not_programmed}" if port.not_programmed else ""
    lines = [element("p", text) for text in (refused, *claims) if text]
    return element("div", *lines, class_="box bad") if lines else NOTHING


def _frontend(frontend: FrontendDetail) -> tuple[Markup | str, ...]:
    port = frontend.port
    return (
        frontend.kind,
        join(frontend.address, port) if frontend.address else f"port {port} of this node",
        connections(frontend.connections),
        rate(frontend.per_second),
    )


def _endpoint(endpoint: EndpointDetail) -> tuple[Markup | str, ...]:
    return (
        join(endpoint.address, endpoint.port),
        "this node" if endpoint.on_this_node else endpoint.node or "not named",
        _condition(endpoint),
        _used(endpoint),
        connections(endpoint.connections),
        rate(endpoint.per_second),
    )


def _condition(endpoint: EndpointDetail) -> str:
    if endpoint.terminating:
        return "terminating, still serving" if endpoint.serving else "terminating"
    return "ready" if endpoint.ready else "not ready"


def _used(endpoint: EndpointDetail) -> Markup:
    """Whether traffic goes there, and under which policy not and why."""
    words = badge("used", "good") if endpoint.used else badge("not used", "plain")
    lines = (element("div", line, class_="faint") for line in _reasons(endpoint))
    return together((words, *lines))


def _reasons(endpoint: EndpointDetail) -> Iterator[str]:
    """Why traffic is not sent there; the policy is named where it makes a difference."""
    policies = {"Cluster": endpoint.not_for_cluster, "Local": endpoint.not_for_local}
    in_force = {name: why for name, why in policies.items() if why is not None}
    if len(set(in_force.values())) == 1:
        in_force = {"": next(iter(in_force.values()))}
    for name, why in in_force.items():
        if why:
            yield f"not for policy {name}: {why}" if name else why
