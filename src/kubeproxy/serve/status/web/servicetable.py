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
        '<label><input type="checkbox" name="problems" value="true"{}> only with problems</label>'
        "<button>Search</button></form>",
        search.text,
        search.sort.value,
        html(" checked") if search.problems else NOTHING,
    )
    yield from service_table(found, search)
    yield html("</section>")


def service_table(found: ServiceList, search: Search) -> Iterator[Markup]:
    """The table alone, which the script loads again while the user types."""
    yield html(
        '<div id="found" data-refresh="services" data-offset="{}"><p role="status">{}</p>',
        str(search.offset),
        _tally(found, search),
    )
    columns = _columns(search, counted=found.counts_connections)
    if found.services:
        yield from table("Services", columns, (_row(each, columns) for each in found.services))
    yield _pages(found, search)
    yield html("</div>")


def _tally(found: ServiceList, search: Search) -> str:
    tally, one = plural(found.total, "service"), found.matching == 1
    match = f"{'matches' if one else 'match'} {search.text}" if search.text.strip() else ""
    wrong = f"{'has' if one else 'have'} problems" if search.problems else ""
    said = " and ".join(filter(None, (wrong, match)))
    return f"{count(found.matching)} of {tally} {said}" if said else tally


def _pages(found: ServiceList, search: Search) -> Markup:
    """Which of them are shown, and the ways to the others."""
    shown = len(found.services)
    if shown >= found.matching:
        return NOTHING
    first, last = search.offset, search.offset + shown
    before, after = max(0, first - search.limit), first + search.limit
    ways = [
        _way("previous", "Before", search, before) if first else NOTHING,
        html(
            "<span>{}\u2013{} of {}</span>", count(first + 1), count(last), count(found.matching)
        ),
        _way("next", "After", search, after) if last < found.matching else NOTHING,
    ]
    return html('<nav class="pages" aria-label="Pages of services">{}</nav>', ways)


def _way(rel: str, title: str, search: Search, offset: int) -> Markup:
    href = _address(search, search.sort, offset)
    return html('<a rel="{}" href="{}">{}</a> ', rel, href, title)


def _address(search: Search, sort: Sort, offset: int = 0) -> str:
    """Where the same search is, in an order and from some row on."""
    query = {"q": search.text, "sort": sort.value}
    if search.problems:
        query["problems"] = "true"
    if offset:
        query["offset"] = str(offset)
    return address("status", **query) + "#services"


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
        shown = direction if search.sort is by else ""
        return TableColumn(title, kind, _address(search, by), shown)

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
