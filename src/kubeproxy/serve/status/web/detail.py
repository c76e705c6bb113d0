"""One Service: its frontends, and its endpoints with the reasons why some are not used."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from kubeproxy.base.inet import join
from kubeproxy.serve.status.web.charts import traffic
from kubeproxy.serve.status.web.document import document
from kubeproxy.serve.status.web.explain import form
from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Content,
    Markup,
    TableColumn,
    address,
    badge,
    html,
    row,
    table,
)
from kubeproxy.serve.status.wire import EndpointDetail, FrontendDetail, PortDetail, ServiceDetail
from kubeproxy.serve.status.words import (
    connections,
    count,
    failures,
    plural,
    rate,
    settings,
)

_ROWS: Final = 200
_COUNTS: Final = (TableColumn("Connections", "number"), TableColumn("Per second", "number"))
_FRONTENDS: Final = (TableColumn("Frontend"), TableColumn("Address", "address"), *_COUNTS)
_ENDPOINTS: Final = (
    TableColumn("Endpoint", "address"),
    *map(TableColumn, ("Node", "Condition", "Used")),
    *_COUNTS,
)


def service_page(detail: ServiceDetail) -> Iterator[Markup]:
    """The page of a Service."""
    title = f"{detail.namespace}/{detail.service} on {detail.node}"
    return document(title, detail.node, chain([_about(detail)], ports(detail)))


def ports(detail: ServiceDetail) -> Iterator[Markup]:
    """The service ports, which the script refreshes."""
    yield html('<section id="service" data-refresh="service">')
    for port in detail.ports:
        yield from _port(port, counted=detail.counts_connections)
    yield html("</section>")


def _about(detail: ServiceDetail) -> Markup:
    """What is above the ports and not refreshed: the name, the chart, the explain form."""
    name = f"{detail.namespace}/{detail.service}"
    frontends = (frontend for port in detail.ports for frontend in port.frontends)
    rates = [each.per_second for each in frontends if each.per_second is not None]
    words = "On this node, over the last two minutes."
    chart = traffic(name, sum(rates) if rates else None, words)
    return html(
        '<section id="about"><h2><span>{}/</span>{}</h2><div class="cards">{}'
        '<article class="card"><h2>Explain a packet to it</h2>{}<p><a href="{}">The rules</a>'
        " show what was written to the kernel for it.</p></article></div></section>",
        detail.namespace,
        detail.service,
        chart if detail.counts_connections else NOTHING,
        form("", name),
        address("rules", detail.namespace, detail.service),
    )


def _kept(columns: Sequence[TableColumn], *, counted: bool) -> Sequence[TableColumn]:
    """The columns without those of connections, where none are counted."""
    return columns if counted else columns[: -len(_COUNTS)]


def _port(port: PortDetail, *, counted: bool) -> Iterator[Markup]:
    title = f"{port.name} {port.protocol}".strip()
    yield html(
        '<article class="card"><h3>{} <small>{}</small></h3>{}<ul class="settings">{}</ul>',
        title,
        port.ip_family,
        _troubles(port),
        (html("<li>{}</li>", text) for text in settings(port)),
    )
    columns = _kept(_FRONTENDS, counted=counted)
    frontends = (row(columns, _frontend(each)) for each in port.frontends)
    yield from table(f"Frontends of {title}, {port.ip_family}", columns, frontends)
    used = sum(endpoint.used for endpoint in port.endpoints)
    yield html("<p>{}, {} used</p>", plural(len(port.endpoints), "endpoint"), str(used))
    if port.endpoints:
        each_counted = any(each.connections is not None for each in port.endpoints)
        columns = _kept(_ENDPOINTS, counted=each_counted)
        endpoints = (
            row(columns, _endpoint(each), "" if each.used else "unused")
            for each in port.endpoints[:_ROWS]
        )
        yield from table(f"Endpoints of {title}, {port.ip_family}", columns, endpoints)
    more = len(port.endpoints) - _ROWS
    if more > 0:
        yield html("<p>{} more: the JSON (?format=json) has all</p>", count(more))
    yield html("</article>")


def _troubles(port: PortDetail) -> Markup:
    lines = [
        f"{each.address} is served by {each.served_by}, and not by {each.not_served}: give one of"
        " them another address"
        for each in port.conflicts
    ]
    if port.not_programmed:
        lines.insert(0, f"The kernel does not have it: {port.not_programmed}")
    if not lines:
        return NOTHING
    return html('<div class="box bad">{}</div>', (html("<p>{}</p>", line) for line in lines))


def _frontend(frontend: FrontendDetail) -> tuple[str, ...]:
    port = frontend.port
    return (
        frontend.kind,
        join(frontend.address, port) if frontend.address else f"port {port} of this node",
        connections(frontend.connections),
        rate(frontend.per_second),
    )


def _endpoint(endpoint: EndpointDetail) -> tuple[Content, ...]:
    condition = "ready" if endpoint.ready else "not ready"
    if endpoint.terminating:
        condition = "terminating, still serving" if endpoint.serving else "terminating"
    used = badge("used", "good") if endpoint.used else badge("not used", "plain")
    if endpoint.left_out_until and not endpoint.used:
        used = badge("left out", "warn")
    reasons = (html('<div class="faint">{}</div>', line) for line in _reasons(endpoint))
    return (
        join(endpoint.address, endpoint.port),
        "this node" if endpoint.on_this_node else endpoint.node or "not named",
        condition,
        (used, *reasons),
        connections(endpoint.connections),
        rate(endpoint.per_second),
    )


def _reasons(endpoint: EndpointDetail) -> Iterator[str]:
    """Why traffic is not sent there; the policy is named where it makes a difference."""
    policies = {"Cluster": endpoint.not_for_cluster, "Local": endpoint.not_for_local}
    in_force = {name: why for name, why in policies.items() if why is not None}
    if len(set(in_force.values())) == 1:
        in_force = {"": next(iter(in_force.values()))}
    for name, why in in_force.items():
        if why:
            yield f"not for policy {name}: {why}" if name else why
    failed = failures(endpoint)
    if failed:
        yield failed
