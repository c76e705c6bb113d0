"""The status in the browser: `/status`, `/status/services/NAMESPACE/NAME`, and parts of them.

The script of the page asks for a part again with `?part=NAME`; without a script, everything is in
the page, and forms and links load it again.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from kubeproxy.base.steps import Steps
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.status.packets import explanations
from kubeproxy.serve.status.ports import all_services, service_detail
from kubeproxy.serve.status.report import ProcessUsage, report
from kubeproxy.serve.status.services import Search, Sort, rates, service_list
from kubeproxy.serve.status.state import State
from kubeproxy.serve.status.web.detail import ports, service_page
from kubeproxy.serve.status.web.explain import Explained, answer
from kubeproxy.serve.status.web.home import home, not_found, state_section, sync_section
from kubeproxy.serve.status.web.markup import Markup
from kubeproxy.serve.status.web.servicetable import service_table
from kubeproxy.serve.status.wire import FieldProblem
from kubeproxy.serve.status.words import unknown

ROWS: Final = 200
"""Services in the table; the others are on further pages."""
_DIGITS: Final = 10


def page(
    request: Request, state: State, usage: ProcessUsage, service: tuple[str, ...]
) -> Steps[tuple[int, Iterable[Markup]]]:
    """The status code and the page: of a Service, if its namespace and name are given."""
    part = request.query.get("part", "")
    if not service:
        return 200, (yield from _first_page(request, state, usage, part))
    detail = yield from service_detail(state, *service)
    if detail is None:
        reasons = unknown("service ports", service, all_services(state), "/status")
        return 404, not_found(state.cluster.node_name, reasons)
    return 200, ports(detail) if part == "service" else service_page(detail)


def _first_page(
    request: Request, state: State, usage: ProcessUsage, part: str
) -> Steps[Iterable[Markup]]:
    if part == "answer":
        return answer((yield from _explained(request, state)))
    sorts = {each.value: each for each in Sort}
    sort = sorts.get(request.query.get("sort", ""), Sort.NAME)
    offset, problems = request.query.get("offset", ""), request.query.get("problems", "")
    first = int(offset) if offset.isascii() and offset.isdigit() and len(offset) < _DIGITS else 0
    search = Search(request.query.get("q", ""), sort, ROWS, problems == "true", first)
    if part == "services":
        found = yield from service_list(state, search)
        return service_table(found, search)
    status = yield from report(state, usage)
    now = yield from rates(state)
    if part == "state":
        return chain(state_section(status, now), sync_section(status))
    explained = yield from _explained(request, state)
    found = yield from service_list(state, search)
    return home(status, now, explained, found, search)


def _explained(request: Request, state: State) -> Steps[Explained]:
    source, destination = request.query.get("from", ""), request.query.get("to", "")
    if not destination.strip():
        return Explained(source, destination)
    found = yield from explanations(state, source.strip() or "outside", [destination.strip()])
    if isinstance(found, FieldProblem):
        return Explained(source, destination, refusal=str(found))
    return Explained(source, destination, found)
