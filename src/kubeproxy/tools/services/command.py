"""`kube-proxy services`: what the running proxy serves, with endpoints and connections."""

import time
from functools import partial
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import FieldError, OperatorError
from kubeproxy.config.flagset import HELP, Flag, Parsed
from kubeproxy.config.kinds import BOOL, INT32, STRING
from kubeproxy.serve.status.wire import ServiceDetail, ServiceList
from kubeproxy.tools import client
from kubeproxy.tools.command import OUTPUT, Command, not_negative, note, print_answer, wants_json
from kubeproxy.tools.services.view import detail, listing, not_counted, remarks

SORTS: Final = ("name", "connections", "rate")
_FLAGS: Final = (
    Flag("search", STRING, "", "Only those with this text in their name or addresses.", "List"),
    Flag("namespace", STRING, "", "Only those of this namespace.", "List", "n"),
    Flag("sort", STRING, "name", "By 'name', 'connections' or 'rate'.", "List"),
    Flag("limit", INT32, 0, "The first so many; 0 is all.", "List"),
    Flag("no-rates", BOOL, False, "Do not wait a second to learn connections per second."),
    OUTPUT,
    *client.FLAGS,
    HELP,
)


def _run(parsed: Parsed) -> int:
    names = [name for name in parsed.positionals if name]
    if len(names) > 1:
        raise OperatorError(f"one service at a time, got: {' '.join(names)}")
    sort = parsed.value("sort", str)
    if sort not in SORTS:
        raise FieldError("sort", sort, f"must be one of {', '.join(SORTS)}")
    not_negative(parsed, "limit")
    daemon = client.connect(parsed)
    look = _one if names else _all
    found = look(daemon, parsed)
    if found.counts_connections and not parsed.value("no-rates", bool):
        time.sleep(client.MOMENT)
        found = look(daemon, parsed)
    as_text = not wants_json(parsed)
    if as_text and not found.counts_connections:
        note(not_counted(found.mode))
    if isinstance(found, ServiceDetail):
        print_answer(parsed, found, partial(detail, found))
        return 0
    print_answer(parsed, found, partial(listing, found))
    for remark in remarks(found) if as_text else ():
        note(remark)
    return 0


def _one(daemon: client.Client, parsed: Parsed) -> ServiceDetail:
    """A Service; the daemon finds its namespace if none is named.

    Of a service port, as other commands print it, the Service is shown.
    """
    name, namespace = "".join(parsed.positionals), parsed.value("namespace", str)
    name = name.partition(":")[0]
    return daemon.service(f"{namespace}/{name}" if namespace and "/" not in name else name)


def _all(daemon: client.Client, parsed: Parsed) -> ServiceList:
    """All Services that fit; a search finds the name of a namespace elsewhere, too."""
    namespace, limit = parsed.value("namespace", str), parsed.value("limit", int)
    query = {
        "q": parsed.value("search", str) or (f"{namespace}/" if namespace else ""),
        "sort": parsed.value("sort", str),
        "limit": "0" if namespace else str(limit),
    }
    found = daemon.get(client.SERVICES, ServiceList, query)
    if not namespace:
        return found
    inside = tuple(each for each in found.services if each.namespace == namespace)
    return replace(found, matching=len(inside), services=inside[: limit or None])


COMMAND: Final = Command("services [[NAMESPACE/]NAME]", _FLAGS, _run, takes_arguments=True)
main, usage_text = COMMAND.main, COMMAND.usage_text
