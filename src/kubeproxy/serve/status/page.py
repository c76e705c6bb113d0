"""The status in the browser: `/status`, `/status/services/NAMESPACE/NAME`, and parts of them.

The script of the page asks for a part again with `?part=NAME`; without a script, everything is in
the page, and forms and links load it again.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.pace import paced, run
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.packets import NOT_YET, explanations, is_ready, problem_of
from kubeproxy.serve.status.pages import own_usage
from kubeproxy.serve.status.ports import all_services, namespaces_of, service_detail
from kubeproxy.serve.status.report import report
from kubeproxy.serve.status.services import Search, Sort, rates, service_list
from kubeproxy.serve.status.web.asking import Asking, answer
from kubeproxy.serve.status.web.detail import ports, service_page
from kubeproxy.serve.status.web.document import headers
from kubeproxy.serve.status.web.home import Home, home, not_found, state_parts
from kubeproxy.serve.status.web.markup import Markup, address
from kubeproxy.serve.status.web.servicetable import service_table
from kubeproxy.serve.status.words import unknown

ROWS: Final = 200
"""Services in the table; a search finds the others."""


async def page(request: Request, live: Live) -> Answer:
    """Answer a browser."""
    part = request.query.get("part", "")
    if request.parts[1:2] == ("services",):
        return await _service(request, live, part)
    if part == "answer":
        return _html(answer(await _asking(request, live)))
    state, search = await live.counted(), _search(request)
    if part == "services":
        found = await run(service_list(state, search))
        return _html(service_table(found, search.text, search.sort.value))
    status, now = await run(report(state, own_usage())), await run(rates(state))
    if part == "state":
        return _html(state_parts(status, now))
    shown = Home(
        status=status,
        rates=now,
        found=await run(service_list(state, search)),
        words=search.text,
        sort=search.sort.value,
        asking=await _asking(request, live),
    )
    return _html(home(shown))


async def _service(request: Request, live: Live, part: str) -> Answer:
    wanted = request.parts[2:]
    if len(wanted) == 1:
        namespaces = namespaces_of(live.state(), wanted[0])
        if len(namespaces) != 1:
            return Answer(303, (("Location", address("status", q=wanted[0])),))
        wanted = (namespaces[0], wanted[0])
    state = await live.counted()
    detail = await run(service_detail(state, *wanted))
    if detail is None:
        said = unknown("service ports", wanted, all_services(state), "/status")
        return _html(not_found(state.cluster.node_name, said), 404)
    return _html(ports(detail) if part == "service" else service_page(detail))


def _search(request: Request) -> Search:
    sort = request.query.get("sort", "")
    known = {each.value: each for each in Sort}
    return Search(request.query.get("q", ""), known.get(sort, Sort.NAME), ROWS)


async def _asking(request: Request, live: Live) -> Asking:
    asked = Asking(request.query.get("from", ""), request.query.get("to", ""))
    state, destination = live.state(), asked.destination.strip()
    if not destination:
        return asked
    if not is_ready(state):
        return msgspec.structs.replace(asked, refusal=NOT_YET)
    try:
        source = asked.source.strip() or "outside"
        found = await run(explanations(state, source, (destination,)))
    except FieldError as error:
        return msgspec.structs.replace(asked, refusal=str(problem_of(error, state)))
    return msgspec.structs.replace(asked, answers=found)


def _html(pieces: Iterable[Markup], status: int = 200) -> Answer:
    return Answer(status, headers(), paced(piece.text.encode() for piece in pieces))
