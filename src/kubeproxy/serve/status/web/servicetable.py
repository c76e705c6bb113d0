"""The services: a search form, and a table of those that were found."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Markup,
    TableColumn,
    address,
    element,
    row,
    table,
    together,
    trusted,
)
from kubeproxy.serve.status.wire import ServiceList, ServiceSummary
from kubeproxy.serve.status.words import connections, count, plural, rate

_SHOWN: Final = 2
_SORTS: Final = {"name": "ascending", "connections": "descending", "rate": "descending"}


def services(found: ServiceList, words: str, sort: str) -> Iterator[Markup]:
    """The form with the words that were searched for, and the table, sorted so."""
    yield trusted('<section id="services"><h2>Services</h2>')
    yield _form(words, sort)
    yield from service_table(found, words, sort)
    yield trusted("</section>")


def service_table(found: ServiceList, words: str, sort: str) -> Iterator[Markup]:
    """The table alone, which the script loads again while the user types."""
    yield trusted('<div id="found" data-refresh="services">')
    yield element("p", _tally(found, words), role="status")
    columns = _columns(words, sort, counted=found.counts_connections)
    if found.services:
        yield from table("Services", columns, (_row(each, columns) for each in found.services))
    more = found.matching - len(found.services)
    if more > 0:
        yield element("p", f"{count(more)} more: search for a part of a name or an address.")
    yield trusted("</div>")


def service_link(namespace: str, name: str) -> Markup:
    """The name of a Service, which leads to its page."""
    place = address("status", "services", namespace, name)
    return element("a", element("span", f"{namespace}/"), name, href=place, class_="service")


def _form(words: str, sort: str) -> Markup:
    return element(
        "form",
        element("label", "Search", for_="q"),
        element(
            "input",
            id="q",
            name="q",
            type="search",
            value=words,
            placeholder="name, address or port",
            autocomplete="off",
            spellcheck="false",
        ),
        element("input", type="hidden", name="sort", value=sort),
        element("button", "Search"),
        id="search",
        action="/status#services",
        role="search",
    )


def _tally(found: ServiceList, words: str) -> str:
    if not words.strip():
        return plural(found.total, "service")
    match = "matches" if found.matching == 1 else "match"
    return f"{count(found.matching)} of {plural(found.total, 'service')} {match} {words}"


def _columns(words: str, sort: str, *, counted: bool) -> tuple[TableColumn, ...]:
    def sortable(title: str, by: str) -> TableColumn:
        href = address("status", q=words, sort=by) + "#services"
        return TableColumn(
            title, "" if by == "name" else "number", href, _SORTS[by] if sort == by else ""
        )

    return (
        sortable("Service", "name"),
        TableColumn("Addresses", "address"),
        TableColumn("Ports", "address"),
        TableColumn("Endpoints", "number"),
        *((sortable("Connections", "connections"), sortable("Per second", "rate")) * counted),
    )


def _row(service: ServiceSummary, columns: Sequence[TableColumn]) -> Markup:
    name = f"{service.namespace}/{service.service}"
    problems = (element("p", problem, class_="problem") for problem in service.problems)
    ports = (*service.ports, *(f"node port {port}" for port in service.node_ports))
    cells = (
        together((service_link(service.namespace, service.service), *problems)),
        _lines(service.addresses),
        _lines(ports),
        _endpoints(service),
        connections(service.connections),
        _live_rate(name, service.per_second),
    )
    return row(columns, cells)


def _live_rate(service: str, per_second: float | None) -> Markup:
    """The rate of a Service, with a place for the script's chart."""
    return element(
        "span",
        element("svg", class_="spark", data_spark=service, viewBox="0 0 80 20"),
        element("span", rate(per_second), data_rate=service),
        class_="rate",
    )


def _lines(texts: Sequence[str]) -> Markup:
    more = len(texts) - _SHOWN
    return together(
        (
            *(element("div", text) for text in texts[:_SHOWN]),
            element("div", f"and {more} more", class_="faint") if more > 0 else NOTHING,
        )
    )


def _endpoints(service: ServiceSummary) -> Markup:
    used, every = service.endpoints_used, service.endpoints
    if not used:
        words = f"none of {count(every)}" if every else "none"
        return element("span", words, class_="bad")
    return element("span", count(used) if used == every else f"{count(used)} of {count(every)}")
