"""The status in the browser: `/status`, `/status/services/NAMESPACE/NAME`, and parts of them.

The script of the page asks for a part again with `?part=NAME`; without a script, everything is in
the page, and forms and links load it anew.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.pace import paced
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.rulespage.unknown import unknown
from kubeproxy.serve.status.detail import all_services, namespaces_of, service_detail
from kubeproxy.serve.status.listing import Search, rates, service_list
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.packets import NOT_YET, explanations, is_ready, problem_of
from kubeproxy.serve.status.report import report
from kubeproxy.serve.status.services import Sort
from kubeproxy.serve.status.web.asking import Asking, answer
from kubeproxy.serve.status.web.detail import ports, service_page
from kubeproxy.serve.status.web.document import headers
from kubeproxy.serve.status.web.home import Home, home, not_found, state_parts
from kubeproxy.serve.status.web.markup import Markup, address
from kubeproxy.serve.status.web.servicetable import service_table

ROWS: Final = 200
"""Services in the table: who looks for others searches."""
_SERVICES: Final = "/status/services/"


async def page(request: Request, live: Live) -> Answer:
    """Answer a browser."""
    part = request.query.get("part", "")
    if request.path.startswith(_SERVICES):
        return await _service(request, live, part)
    if part == "state":
        return _html(state_parts(await report(live), await rates(live)))
    if part == "services":
        search = _search(request)
        found = await service_list(live, search)
        return _html(service_table(found, search.text, search.sort.value))
    if part == "answer":
        return _html(answer(await _asking(request, live)))
    return await _home(request, live)


async def _home(request: Request, live: Live) -> Answer:
    search = _search(request)
    shown = Home(
        status=await report(live),
        rates=await rates(live),
        found=await service_list(live, search),
        words=search.text,
        sort=search.sort.value,
        asking=await _asking(request, live),
    )
    return _html(home(shown))


async def _service(request: Request, live: Live, part: str) -> Answer:
    wanted = request.path.removeprefix(_SERVICES).strip("/").split("/")
    if len(wanted) == 1:
        namespaces = namespaces_of(live, wanted[0])
        if len(namespaces) != 1:
            return Answer(303, (("Location", address("status", q=wanted[0])),))
        wanted = [*namespaces, *wanted]
    detail = await service_detail(live, *wanted) if len(wanted) == 2 else None
    if detail is None:
        said = unknown("service ports", wanted, all_services(live), "/status")
        return _html(not_found(live.cluster.node_name, said), 404)
    return _html(ports(detail) if part == "service" else service_page(detail))


def _search(request: Request) -> Search:
    sort = request.query.get("sort", "")
    known = {each.value: each for each in Sort}
    return Search(request.query.get("q", ""), known.get(sort, Sort.NAME), ROWS)


async def _asking(request: Request, live: Live) -> Asking:
    asked = Asking(request.query.get("from", ""), request.query.get("to", ""))
    if not asked.destination.strip():
        return asked
    if not is_ready(live):
        return msgspec.structs.replace(asked, refusal=NOT_YET)
    try:
        found = await explanations(
            live, asked.source.strip() or "outside", (asked.destination.strip(),)
        )
    except FieldError as error:
        return msgspec.structs.replace(asked, refusal=str(problem_of(error, live)))
    return msgspec.structs.replace(asked, answers=found)


def _html(pieces: Iterable[Markup], status: int = 200) -> Answer:
    return Answer(status, headers(), paced(_encoded(pieces)))


def _encoded(pieces: Iterable[Markup]) -> Iterator[bytes]:
    return (piece.text.encode() for piece in pieces)
