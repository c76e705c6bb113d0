"""`kube-proxy services`: what the running proxy serves, with endpoints and connections."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from kubeproxy.config.errors import UsageError
from kubeproxy.config.flagset import HELP, Flag, Parsed, parse, usage
from kubeproxy.config.kinds import BOOL, INT32, STRING
from kubeproxy.serve.status.wire import ServiceDetail, ServiceList
from kubeproxy.tools import client
from kubeproxy.tools.services.view import detail, listing, not_counted, remarks
from kubeproxy.tools.terminal import OUTPUT, look_of, note, show, show_json, wants_json

SORTS: Final = ("name", "connections", "rate")
_OWN: Final = (
    Flag("search", STRING, "", "Only those with this text in their name or addresses.", "List"),
    Flag("namespace", STRING, "", "Only those of this namespace.", "List", "n"),
    Flag("sort", STRING, "name", "By 'name', 'connections' or 'rate'.", "List"),
    Flag("limit", INT32, 0, "The first so many; 0 is all.", "List"),
    Flag("no-rates", BOOL, False, "Do not wait a second to learn connections per second."),
    OUTPUT,
)
_FLAGS: Final = (*_OWN, *client.FLAGS, HELP)

Found = TypeVar("Found", ServiceList, ServiceDetail)


def usage_text() -> str:
    """How to call it."""
    return usage("kube-proxy services [[NAMESPACE/]NAME]", _FLAGS)


def main(arguments: Sequence[str]) -> int:
    """Show all services, or one."""
    parsed = parse(_FLAGS, arguments)
    if parsed.value("help", bool):
        print(usage_text(), end="")  # noqa: T201  # what was asked for
        return 0
    _check(parsed)
    as_json = wants_json(parsed)
    found = _found(client.Client(client.ways(parsed)), parsed)
    if as_json:
        show_json(found)
        return 0
    look = look_of(sys.stdout, os.environ)
    if not found.counts_connections:
        note(not_counted(found.mode))
    if isinstance(found, ServiceDetail):
        show(detail(found, look.width), look)
    else:
        show(listing(found, look.width), look)
        for remark in remarks(found):
            note(remark)
    return 0


def _check(parsed: Parsed) -> None:
    names = [name for name in parsed.positionals if name]
    if len(names) > 1:
        raise UsageError(f"one service at a time, got: {' '.join(names)}", show_usage=False)
    sort, limit = parsed.value("sort", str), parsed.value("limit", int)
    if sort not in SORTS:
        raise UsageError(f"--sort {sort}: must be one of {', '.join(SORTS)}", show_usage=False)
    if limit < 0:
        raise UsageError(f"--limit {limit}: must not be negative", show_usage=False)


def _found(daemon: client.Client, parsed: Parsed) -> ServiceList | ServiceDetail:
    once = parsed.value("no-rates", bool)
    name = "".join(parsed.positionals)
    if not name:
        query = _query(parsed)
        found = _asked(lambda: daemon.get(client.SERVICES, ServiceList, query), once=once)
        return _inside(found, parsed)
    return _asked(lambda: daemon.service(_full_name(name, parsed)), once=once)


def _asked(ask: Callable[[], Found], *, once: bool) -> Found:
    """What the daemon says when it has counted for a moment; at once, where it does not count."""
    found = ask()
    if once or not found.counts_connections:
        return found
    time.sleep(client.MOMENT)
    return ask()


def _full_name(name: str, parsed: Parsed) -> str:
    """A Service with its namespace; the daemon finds it if none is named.

    Of a service port, as other commands print it, the Service is shown.
    """
    name, namespace = name.partition(":")[0], parsed.value("namespace", str)
    return f"{namespace}/{name}" if namespace and "/" not in name else name


def _query(parsed: Parsed) -> dict[str, str]:
    namespace = parsed.value("namespace", str)
    return {
        "q": parsed.value("search", str) or (f"{namespace}/" if namespace else ""),
        "sort": parsed.value("sort", str),
        "limit": "0" if namespace else str(parsed.value("limit", int)),
    }


def _inside(found: ServiceList, parsed: Parsed) -> ServiceList:
    """Those of a namespace, if one is wanted: a search finds it elsewhere in names, too."""
    namespace = parsed.value("namespace", str)
    if not namespace:
        return found
    inside = tuple(each for each in found.services if each.namespace == namespace)
    return replace(
        found, matching=len(inside), services=inside[: parsed.value("limit", int) or None]
    )
