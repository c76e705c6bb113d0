"""`kube-proxy services`: what the running proxy serves, with endpoints and connections."""

import os
import sys
import time
from functools import partial
from itertools import count
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import FieldError, OperatorError
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import BOOL, INT32, STRING
from kubeproxy.serve.status.wire import ServiceDetail, ServiceList
from kubeproxy.tools import anyclient, client
from kubeproxy.tools.clusterflags import LISTED, WITHOUT_DAEMON
from kubeproxy.tools.command import (
    OUTPUT,
    Command,
    display_of,
    not_negative,
    note,
    print_answer,
    say,
    show,
    wants_json,
)
from kubeproxy.tools.layout import line
from kubeproxy.tools.services.changes import changes
from kubeproxy.tools.services.view import detail, full_name, listing, not_counted, remarks

SORTS: Final = ("name", "connections", "rate")
_PERIOD: Final = 2.0
_OUTPUT: Final = replace(
    OUTPUT,
    help="'text' for people, 'wide' without anything cut, 'name' for names alone; 'json' or 'yaml'"
    " for programs.",
)
_FLAGS: Final = (
    Flag("search", STRING, "", "Only those with this text in their name or addresses.", "List"),
    Flag("namespace", STRING, "", "Only those of this namespace.", "List", "n"),
    Flag("problems", BOOL, False, "Only those with which something is wrong.", "List"),
    Flag("sort", STRING, "name", "By 'name', 'connections' or 'rate'.", "List"),
    Flag("limit", INT32, 0, "The first so many; 0 is all.", "List"),
    Flag("offset", INT32, 0, "Without the first so many.", "List"),
    Flag("watch", BOOL, False, "Go on, and print what changes, but for counts.", "List", "w"),
    Flag("no-rates", BOOL, False, "Do not wait a second to learn connections per second."),
    _OUTPUT,
    *client.FLAGS,
)


def _run(parsed: Parsed) -> int:
    names = [name for name in parsed.positionals if name]
    sort, watch = parsed.value("sort", str), parsed.value("watch", bool)
    if sort not in SORTS:
        raise FieldError("sort", sort, f"must be one of {', '.join(SORTS)}")
    for number in ("limit", "offset"):
        not_negative(parsed, number)
    if watch and (names or wants_json(parsed)):
        raise OperatorError("--watch prints changes of the list, as text: no name, no -o json")
    daemon = client.connect(parsed) if watch else anyclient.connect(parsed)
    if names:
        _print_details(daemon, parsed, names)
        return 0
    found = _all(daemon, parsed)
    rates = not parsed.value("no-rates", bool) and parsed.value("output", str) != "name"
    if found.counts_connections and rates and not watch:
        time.sleep(client.MOMENT)
        found = _all(daemon, parsed)
    _print_list(found, parsed)
    if watch:
        _watch(daemon, parsed, found)
    return 0


# --- by name ----------------------------------------------------------------------------------


def _print_details(daemon: client.Client, parsed: Parsed, names: list[str]) -> None:
    """All that is known of some Services; as JSON, several are a list."""
    found = [_one(daemon, parsed, name) for name in names]
    if any(each.counts_connections for each in found) and not parsed.value("no-rates", bool):
        time.sleep(client.MOMENT)
        found = [_one(daemon, parsed, name) for name in names]
    if parsed.value("output", str) == "name":
        for each in found:
            say(f"{each.namespace}/{each.service}")
        return
    if wants_json(parsed):
        print_answer(parsed, found[0] if len(found) == 1 else found, lambda _: ())
        return
    if not found[0].counts_connections:
        note(not_counted(found[0].mode))
    for number, each in enumerate(found):
        if number:
            say("")
        print_answer(parsed, each, partial(detail, each))


def _one(daemon: client.Client, parsed: Parsed, name: str) -> ServiceDetail:
    """A Service; the daemon finds its namespace if none is named.

    Of a service port, as other commands print it, the Service is shown.
    """
    namespace = parsed.value("namespace", str)
    name = name.partition(":")[0]
    return daemon.service(f"{namespace}/{name}" if namespace and "/" not in name else name)


# --- the list ---------------------------------------------------------------------------------


def _all(daemon: client.Client, parsed: Parsed) -> ServiceList:
    """All Services that fit; a search finds the name of a namespace elsewhere, too."""
    namespace = parsed.value("namespace", str)
    limit, offset = parsed.value("limit", int), parsed.value("offset", int)
    query = {
        "q": parsed.value("search", str) or (f"{namespace}/" if namespace else ""),
        "sort": parsed.value("sort", str),
        "limit": "0" if namespace else str(limit),
    }
    if parsed.value("problems", bool):
        query["problems"] = "true"
    if offset and not namespace:
        query["offset"] = str(offset)
    found = daemon.get(client.SERVICES, ServiceList, query)
    if not namespace:
        return found
    inside = tuple(each for each in found.services if each.namespace == namespace)
    shown = inside[offset : (offset + limit) if limit else None]
    return replace(found, matching=len(inside), services=shown)


def _print_list(found: ServiceList, parsed: Parsed) -> None:
    if parsed.value("output", str) == "name":
        for each in found.services:
            say(full_name(each))
        return
    as_text = not wants_json(parsed)
    if as_text and not found.counts_connections:
        note(not_counted(found.mode))
    bare = bool(parsed.value("namespace", str))
    print_answer(parsed, found, partial(listing, found, bare=bare))
    for remark in remarks(found) if as_text else ():
        note(remark)


def _watch(daemon: client.Client, parsed: Parsed, found: ServiceList) -> None:
    """Print the rows of Services that have changed, or are gone, until interrupted."""
    bare = bool(parsed.value("namespace", str))
    for _ in count():
        sys.stdout.flush()
        time.sleep(_PERIOD)
        now = _all(daemon, parsed)
        changed, gone = changes(found.services, now.services)
        display = display_of(sys.stdout, os.environ)
        if changed:
            shown = listing(replace(now, services=changed), display.width, bare=bare)
            show(list(shown)[1:], display)
        show((line(f"{full_name(each)}  gone") for each in gone), display)
        found = now


COMMAND: Final = Command(
    "services [[NAMESPACE/]NAME...]",
    (*_FLAGS, *WITHOUT_DAEMON),
    _run,
    listed=(*_FLAGS, *LISTED),
    takes_arguments=True,
    outputs=("text", "wide", "name", "json", "yaml"),
)
main, usage_text = COMMAND.main, COMMAND.usage_text
