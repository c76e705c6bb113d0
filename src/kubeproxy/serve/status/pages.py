"""`/status`, `/rules` and below: what each page answers. `serve.routes` has their paths."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final
from urllib.parse import urlencode

import msgspec

from kubeproxy.base.commit import commit
from kubeproxy.base.pace import paced, run
from kubeproxy.base.printable import printable, printable_lines
from kubeproxy.serve.http.answer import JSON, Answer, text
from kubeproxy.serve.http.request import Request, wants_json
from kubeproxy.serve.metrics.process import usage
from kubeproxy.serve.status.clusterwire import cluster_pieces
from kubeproxy.serve.status.failures import failure_list
from kubeproxy.serve.status.live import Live
from kubeproxy.serve.status.packets import NOT_YET, explanations
from kubeproxy.serve.status.ports import all_services, namespaces_of, service_detail
from kubeproxy.serve.status.report import ProcessUsage, report
from kubeproxy.serve.status.rules import json_pieces, select, text_pieces
from kubeproxy.serve.status.services import Search, Sort, list_pieces, rates, service_list
from kubeproxy.serve.status.tablewire import table_pieces
from kubeproxy.serve.status.wire import FieldProblem
from kubeproxy.serve.status.words import unknown

_LINES: Final = (("Content-Type", "application/x-ndjson"), ("X-Content-Type-Options", "nosniff"))
_ADVICE: Final = ("/status/services", "/status/services?q=TEXT")
_ADVICE_FOR_TOOLS: Final = ("kube-proxy services", "kube-proxy services --search TEXT")
"""Where all Services are listed, and where they are searched."""
_DIGITS: Final = 10
_YES, _NO = "true", "false"
_DESTINATIONS: Final = 50
"""An answer names each endpoint, and is made in one piece."""


_SERVICES: Final = ("q", "sort", "problems", "offset")
_PACKET: Final = ("from", "to")
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "show_daemon": (*_SERVICES, *_PACKET, "part"),
    "show_services": (*_SERVICES, "limit"),
    "show_service": ("part",),
    "show_explanations": (*_PACKET, "interface"),
    "show_failures": ("after",),
    "show_table": ("family",),
}
"""What may be asked of each page, beside `format`."""


def unknown_parameter(page: str, request: Request) -> Answer | None:
    """The refusal of a request with a parameter that the page does not have."""
    known = (*_PARAMETERS.get(page, ()), "format")
    name = next((each for each in request.query if each not in known), None)
    if name is None:
        return None
    return text(
        f"{printable(name[:40])}: there is no such parameter, but {', '.join(known)}\n", 400
    )


def _json(value: object) -> Answer:
    return Answer(headers=JSON, body=msgspec.json.encode(value))


async def show_daemon(request: Request, live: Live) -> Answer:
    """`/status`."""
    if wants_json(request):
        return _json(await run(report(await live.daemon(), _own_usage())))
    return await _in_browser(request, live)


def _own_usage() -> ProcessUsage:
    now = usage()
    return ProcessUsage(os.getpid(), now.cpu, now.resident, commit())


async def _in_browser(request: Request, live: Live, service: tuple[str, ...] = ()) -> Answer:
    # Loaded for the first browser, in a thread: it takes so long that syncs would wait.
    await asyncio.to_thread(import_module, "kubeproxy.serve.status.page")
    from kubeproxy.serve.status.page import page  # noqa: PLC0415  # it is there now
    from kubeproxy.serve.status.web.document import headers  # noqa: PLC0415  # the same

    asks = request.query.get("part") == "answer"
    state = live.state() if asks else await live.counted()
    status, pieces = await run(page(request, state, _own_usage(), service))
    return Answer(status, headers(), paced(piece.text.encode() for piece in pieces))


async def show_services(request: Request, live: Live) -> Answer:
    """`/status/services`."""
    query, known = request.query, [each.value for each in Sort]
    sort, limit = query.get("sort") or Sort.NAME.value, query.get("limit") or "500"
    if sort not in known:
        return text(f"sort={printable(sort)}: must be one of {', '.join(known)}\n", 400)
    if not _is_number(limit):
        return _no_number("limit", limit, ", 0 for all")
    offset, problems = query.get("offset") or "0", query.get("problems") or _NO
    if not _is_number(offset):
        return _no_number("offset", offset, "")
    if problems not in {_YES, _NO}:
        return text(f"problems={printable(problems)}: must be {_YES} or {_NO}\n", 400)
    search = Search(query.get("q", ""), Sort(sort), int(limit), problems == _YES, int(offset))
    found = await run(service_list(await live.counted(), search))
    return Answer(headers=JSON, body=paced(list_pieces(found)))


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= _DIGITS


def _no_number(name: str, value: str, but: str) -> Answer:
    wrong = f"{name}={printable(value[:40])}"
    return text(f"{wrong}: must be a number of up to {_DIGITS} digits{but}\n", 400)


async def show_service(request: Request, live: Live) -> Answer:
    """`/status/services/[NAMESPACE/]NAME`."""
    as_page = "text/html" in request.headers.get("accept", "") and not request.query.get("format")
    *namespace, name = request.parts[2:]
    found = namespace or namespaces_of(live.state(), name)
    if as_page and len(found) == 1:
        return await _in_browser(request, live, (found[0], name))
    if as_page:
        return Answer(303, (("Location", f"/status?{urlencode({'q': name})}"),))
    list_, search = _ADVICE_FOR_TOOLS if wants_json(request) else _ADVICE
    if len(found) != 1:
        return text(_which(name, found, search), 404)
    state = await live.counted()
    detail = await run(service_detail(state, found[0], name))
    if detail is None:
        wanted = (found[0], name)
        return text(unknown("service ports", wanted, all_services(state), list_), 404)
    return _json(detail)


def _which(name: str, namespaces: Sequence[str], search: str) -> str:
    if namespaces:
        choices = ", ".join(f"{each}/{name}" for each in namespaces)
        return f"several Services have that name: {printable(choices)}\n"
    return f"no Service named {printable(name)} is proxied: {search} finds those that are\n"


async def show_rates(_: Request, live: Live) -> Answer:
    """`/status/rates`."""
    return _json(await run(rates(await live.counted())))


async def show_failures(request: Request, live: Live) -> Answer:
    """`/status/failures`."""
    after = request.query.get("after") or "0"
    if not _is_number(after):
        return _no_number("after", after, "")
    return _json(await run(failure_list(live.state(), int(after))))


async def show_explanations(request: Request, live: Live) -> Answer:
    """`/status/explain`."""
    destinations = [each for each in request.values("to") if each]
    if not destinations:
        return text("to is missing: say where the packet goes, such as ?to=SERVICE:PORT\n", 400)
    if len(destinations) > _DESTINATIONS:
        return text(f"to: ask for no more than {_DESTINATIONS} destinations at once\n", 400)
    source, interface = request.query.get("from") or "outside", request.query.get("interface", "")
    found = await run(explanations(live.state(), source, destinations, interface))
    if found == NOT_YET:
        return text(f"{NOT_YET}\n", 503)
    if not isinstance(found, FieldProblem):
        return _json(found)
    if wants_json(request):
        return Answer(400, JSON, msgspec.json.encode(found))
    return text(f"{printable_lines(str(found))}\n", 400)


async def show_table(request: Request, live: Live) -> Answer:
    """`/status/table`."""
    state, asked = live.state(), request.query.get("family", "")
    family = next((each for each in state.families if each.value.lower() == asked.lower()), None)
    if family is None:
        known = " or ".join(each.value for each in state.families)
        return text(f"family={printable(asked)}: must be {known}\n", 400)
    if state.families[family].node is None:
        return text(f"{family.value}: {NOT_YET}\n", 503)
    return Answer(headers=_LINES, body=paced(table_pieces(state, family)))


async def show_cluster(_: Request, live: Live) -> Answer:
    """`/status/cluster`."""
    state = live.state()
    if all(each.node is None for each in state.families.values()):
        return text(f"{NOT_YET}\n", 503)
    return Answer(headers=_LINES, body=paced(cluster_pieces(state)))


async def show_rules(request: Request, live: Live) -> Answer:
    """`/rules[/NAMESPACE[/SERVICE[/PORT]]]`."""
    wanted = request.parts[1:]
    selected = select(live.state(), wanted)
    if wanted and not any(each.names for each in selected):
        services = {name[:2] for each in selected for name in each.table.entries}
        return text(unknown("rules", wanted, services, "/rules"), 404)
    written = len(wanted) >= 2
    if wants_json(request):
        return Answer(headers=JSON, body=paced(json_pieces(selected, written=written)))
    return Answer(body=paced(text_pieces(selected, written=written)))
