"""The first page, and the parts of it that the script asks for again."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kubeproxy.serve.status.web.asking import Asking, explain
from kubeproxy.serve.status.web.charts import sync_kind
from kubeproxy.serve.status.web.document import document, footer, heading
from kubeproxy.serve.status.web.markup import (
    LEVELS,
    Markup,
    TableColumn,
    badge,
    element,
    row,
    table,
    trusted,
)
from kubeproxy.serve.status.web.overview import state
from kubeproxy.serve.status.web.servicetable import services
from kubeproxy.serve.status.wire import DaemonStatus, ServiceList, ServiceRates, Sync
from kubeproxy.serve.status.words import clock, count, elapsed, plural

_SYNCS: Final = 12
_OLDER: Final = 48
_COLUMNS: Final = (
    TableColumn("Ended (UTC)"),
    TableColumn("Family"),
    TableColumn("Kind"),
    TableColumn("Took", "number"),
    TableColumn("Added", "number"),
    TableColumn("Changed", "number"),
    TableColumn("Removed", "number"),
    TableColumn("Written", "number"),
    TableColumn("Outcome"),
)


class Home(msgspec.Struct, frozen=True):
    """What the first page shows; `words` were searched for, and `sort` is how."""

    status: DaemonStatus
    rates: ServiceRates
    found: ServiceList
    words: str
    sort: str
    asking: Asking


def home(shown: Home) -> Iterator[Markup]:
    """The state of the daemon, the explain form, the services, the syncs."""

    def main() -> Iterator[Markup]:
        yield from state(shown.status, shown.rates)
        yield from explain(shown.asking)
        yield from services(shown.found, shown.words, shown.sort)
        yield from syncs(shown.status)

    status = shown.status
    return document(f"kube-proxy on {status.node}", heading(status.node), main(), footer(status))


def state_parts(status: DaemonStatus, rates: ServiceRates) -> Iterator[Markup]:
    """What the script refreshes, beside the services."""
    yield from state(status, rates)
    yield from syncs(status)


def not_found(node: str, said: str) -> Iterator[Markup]:
    """A page for what is not there: `said` has a reason a line."""

    def main() -> Iterator[Markup]:
        lines = (element("p", line) for line in said.strip().split("\n"))
        yield element("section", element("div", *lines, class_="box warn"))

    return document(f"not found on {node}", heading(node), main())


def syncs(status: DaemonStatus) -> Iterator[Markup]:
    """The latest syncs of all families, the newest first."""
    every = sorted(
        ((sync, family.ip_family) for family in status.families for sync in family.history),
        key=lambda each: each[0].ended,
        reverse=True,
    )
    yield trusted('<section id="syncs" data-refresh="state"><h2>Syncs</h2>')
    yield from table("The latest syncs", _COLUMNS, map(_row, every[:_SYNCS]))
    older = every[_SYNCS : _SYNCS + _OLDER]
    if older:
        yield trusted('<details id="older">')
        yield element("summary", plural(len(older), "older sync"))
        yield from table("Older syncs", _COLUMNS, map(_row, older))
        yield trusted("</details>")
    yield trusted("</section>")


def _row(entry: tuple[Sync, str]) -> Markup:
    sync, family = entry
    cells = (
        element("time", clock(sync.ended), datetime=sync.ended),
        family,
        sync_kind(sync),
        elapsed(sync.seconds),
        count(sync.added),
        count(sync.changed),
        count(sync.removed),
        count(sync.written),
        badge(sync.outcome, LEVELS.get(sync.outcome, "warn")),
    )
    return row(_COLUMNS, cells)
