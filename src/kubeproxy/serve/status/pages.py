"""`/status` and below: which paths there are, and what each of them answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from kubeproxy.base.errors import FieldError, OperatorError
from kubeproxy.base.printable import printable, printable_lines
from kubeproxy.serve.http.access import SOCKET_PEER, Access, refusal
from kubeproxy.serve.http.answer import JSON, Answer, text
from kubeproxy.serve.http.pace import paced
from kubeproxy.serve.http.request import Request, wants_json
from kubeproxy.serve.rulespage.unknown import unknown
from kubeproxy.serve.status.detail import all_services, namespaces_of, service_detail
from kubeproxy.serve.status.listing import Search, rates, service_list
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.packets import NOT_YET, explanations, is_ready, problem_of
from kubeproxy.serve.status.report import report
from kubeproxy.serve.status.services import Sort, list_pieces
from kubeproxy.serve.status.tablewire import table_pieces

PATH: Final = "/status"
SERVICES: Final = f"{PATH}/services"
_LINES: Final = (("Content-Type", "application/x-ndjson"), ("X-Content-Type-Options", "nosniff"))
_ADVICE: Final = (SERVICES, f"{SERVICES}?q=TEXT")
_ADVICE_FOR_TOOLS: Final = ("kube-proxy services", "kube-proxy services --search TEXT")
"""Where all Services are listed, and where they are searched."""
_DIGITS: Final = 10
_DESTINATIONS: Final = 50
"""An answer names each endpoint, and is made in one piece."""

Page = Callable[[Request, Live], Awaitable[Answer]]


async def status(request: Request, live: Live, access: Access) -> Answer:
    """Answer a request for the status."""
    refused = refusal(request, access, "the status", "statusPage")
    if refused is not None:
        return refused
    if request.peer == SOCKET_PEER:  # root does not stand in line
        return await _answer(request, live)
    async with live.a_few:
        return await _answer(request, live)


async def _answer(request: Request, live: Live) -> Answer:
    parts = _parts(request)
    if parts[:1] == ("services",) and 1 < len(parts) <= 3:
        return await _service(request, live)
    page = _PAGES.get("/".join(parts))
    if page is None:
        paths = ", ".join(f"{PATH}/{each}".rstrip("/") for each in _PAGES)
        return text(f"there is no such page, but these: {paths}, {SERVICES}/NAMESPACE/NAME\n", 404)
    return await page(request, live)


def _parts(request: Request) -> tuple[str, ...]:
    return tuple(part for part in request.path.removeprefix(PATH).split("/") if part)


def _json(value: object) -> Answer:
    return Answer(headers=JSON, body=msgspec.json.encode(value))


async def _shown(request: Request, live: Live) -> Answer:
    page = await asyncio.to_thread(_page_of_browsers)
    return await page(request, live)


def _page_of_browsers() -> Page:
    """Loaded when a browser asks, in a thread: it takes so long that syncs would notice."""
    from kubeproxy.serve.status.page import page  # noqa: PLC0415

    return page


async def _daemon(request: Request, live: Live) -> Answer:
    return _json(await report(live)) if wants_json(request) else await _shown(request, live)


async def _services(request: Request, live: Live) -> Answer:
    try:
        search = search_of(request.query)
    except OperatorError as error:
        return text(f"{error}\n", 400)
    found = await service_list(live, search)
    return Answer(headers=JSON, body=paced(list_pieces(found)))


def search_of(query: Mapping[str, str]) -> Search:
    """What a query looks for."""
    sort, limit = query.get("sort") or Sort.NAME.value, query.get("limit") or "500"
    known = [each.value for each in Sort]
    if sort not in known:
        raise OperatorError(f"sort={printable(sort)}: must be one of {', '.join(known)}")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= _DIGITS):
        shown = printable(limit[:40])
        raise OperatorError(
            f"limit={shown}: must be a number of up to {_DIGITS} digits, 0 for all"
        )
    return Search(query.get("q", ""), Sort(sort), int(limit))


async def _service(request: Request, live: Live) -> Answer:
    if "text/html" in request.headers.get("accept", "") and not request.query.get("format"):
        return await _shown(request, live)
    *namespace, name = _parts(request)[1:]
    found = namespace or namespaces_of(live, name)
    list_, search = _ADVICE_FOR_TOOLS if wants_json(request) else _ADVICE
    if len(found) != 1:
        return text(_which(name, found, search), 404)
    detail = await service_detail(live, found[0], name)
    if detail is None:
        wanted = (found[0], name)
        return text(unknown("service ports", wanted, all_services(live), list_), 404)
    return _json(detail)


def _which(name: str, namespaces: Sequence[str], search: str) -> str:
    if namespaces:
        choices = ", ".join(f"{each}/{name}" for each in namespaces)
        return f"several Services have that name: {printable(choices)}\n"
    return f"no Service named {printable(name)} is proxied: {search} finds those that are\n"


async def _rates(_: Request, live: Live) -> Answer:
    return _json(await rates(live))


async def _explain(request: Request, live: Live) -> Answer:
    destinations = [each for each in request.values("to") if each]
    if not destinations:
        return text("to is missing: say where the packet goes, such as ?to=SERVICE:PORT\n", 400)
    if len(destinations) > _DESTINATIONS:
        return text(f"to: ask for no more than {_DESTINATIONS} destinations at once\n", 400)
    if not is_ready(live):
        return text(f"{NOT_YET}\n", 503)
    source = request.query.get("from") or "outside"
    try:
        found = await explanations(live, source, destinations, request.query.get("interface", ""))
    except FieldError as error:
        problem = problem_of(error, live)
        if wants_json(request):
            return Answer(400, JSON, msgspec.json.encode(problem))
        return text(f"{printable_lines(str(problem))}\n", 400)
    return _json(found)


async def _table(request: Request, live: Live) -> Answer:
    asked = request.query.get("family", "")
    family = next((each for each in live.syncs if each.value.lower() == asked.lower()), None)
    if family is None:
        known = " or ".join(each.value for each in live.syncs)
        return text(f"family={printable(asked)}: must be {known}\n", 400)
    if live.syncs[family].node is None:
        return text(f"{family.value}: {NOT_YET}\n", 503)
    return Answer(headers=_LINES, body=paced(table_pieces(live, family)))


_PAGES: Final[Mapping[str, Page]] = {
    "": _daemon,
    "services": _services,
    "rates": _rates,
    "explain": _explain,
    "table": _table,
}
