"""The services: a search form, and a table of those that were found."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.serve.status.services import Search, Sort
from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Markup,
    TableColumn,
    address,
    html,
    row,
    table,
)
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from kubeproxy.serve.status.words import connections, count, plural, rate

_SHOWN: Final = 2


def services(found: ServiceList, search: Search) -> Iterator[Markup]:
    """The form with the words that were searched for, and the table."""
    yield html(
        '<section id="services"><h2>Services</h2>'
        '<form id="search" action="/status#services" role="search"><label for="q">Search</label>'
        '<input id="q" name="q" type="search" value="{}" placeholder="name, address or port"'
        ' autocomplete="off" spellcheck="false"><input type="hidden" name="sort" value="{}">'
        "<button>Search</button></form>",
        search.text,
        search.sort.value,
    )
    yield from service_table(found, search)
    yield html("</section>")


def service_table(found: ServiceList, search: Search) -> Iterator[Markup]:
    """The table alone, which the script loads again while the user types."""
    tally = plural(found.total, "service")
    if search.text.strip():
        match = "matches" if found.matching == 1 else "match"
        tally = f"{count(found.matching)} of {tally} {match} {search.text}"
    yield html('<div id="found" data-refresh="services"><p role="status">{}</p>', tally)
    columns = _columns(search, counted=found.counts_connections)
    if found.services:
        yield from table("Services", columns, (_row(each, columns) for each in found.services))
    more = found.matching - len(found.services)
    if more > 0:
        yield html("<p>{} more: search for a part of a name or an address.</p>", count(more))
    yield html("</div>")


def service_link(namespace: str, name: str) -> Markup:
    """The name of a Service, which leads to its page."""
    return html(
        '<a href="{}" class="service"><span>{}/</span>{}</a>',
        address("status", "services", namespace, name),
        namespace,
        name,
    )


def _columns(search: Search, *, counted: bool) -> tuple[TableColumn, ...]:
    def sortable(title: str, by: Sort) -> TableColumn:
        kind, direction = ("", "ascending") if by is Sort.NAME else ("number", "descending")
        href = address("status", q=search.text, sort=by.value) + "#services"
        return TableColumn(title, kind, href, direction if search.sort is by else "")

    return (
        sortable("Service", Sort.NAME),
        TableColumn("Addresses", "address"),
        TableColumn("Ports", "address"),
        TableColumn("Endpoints", "number"),
        *(
            (sortable("Connections", Sort.CONNECTIONS), sortable("Per second", Sort.RATE))
            * counted
        ),
    )


def _row(service: ServiceSummary, columns: Sequence[TableColumn]) -> Markup:
    problems = (html('<p class="problem">{}</p>', problem) for problem in service.problems)
    live_rate = html(  # with a place for the script's chart
        '<span class="rate"><svg class="spark" data-spark="{name}" viewBox="0 0 80 20"></svg>'
        '<span data-rate="{name}">{rate}</span></span>',
        name=f"{service.namespace}/{service.service}",
        rate=rate(service.per_second),
    )
    cells = (
        (service_link(service.namespace, service.service), *problems),
        _lines(service.addresses),
        _lines((*service.ports, *(f"node port {port}" for port in service.node_ports))),
        _endpoints(service),
        connections(service.connections),
        live_rate,
    )
    return row(columns, cells)


def _lines(texts: Sequence[str]) -> tuple[Markup, ...]:
    more = len(texts) - _SHOWN
    return (
        *(html("<div>{}</div>", text) for text in texts[:_SHOWN]),
        html('<div class="faint">and {} more</div>', str(more)) if more > 0 else NOTHING,
    )


def _endpoints(service: ServiceSummary) -> Markup:
    used, every = service.endpoints_used, service.endpoints
    if not used:
        words = f"none of {count(every)}" if every else "none"
        return html('<span class="bad">{}</span>', words)
    words = count(used) if used == every else f"{count(used)} of {count(every)}"
    return html("<span>{}</span>", words)
