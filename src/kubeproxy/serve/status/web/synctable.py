"""The latest syncs of all families."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.serve.status.web.charts import sync_kind
from kubeproxy.serve.status.web.markup import Markup, element, trusted
from kubeproxy.serve.status.web.pieces import LEVELS, badge
from kubeproxy.serve.status.web.tables import Column, row, table
from kubeproxy.serve.status.wire import Status, Sync
from kubeproxy.serve.status.words import clock, count, elapsed, plural

_SYNCS: Final = 12
_OLDER: Final = 48
_COLUMNS: Final = (
    Column("Ended (UTC)"),
    Column("Family"),
    Column("Kind"),
    Column("Took", "number"),
    Column("Added", "number"),
    Column("Changed", "number"),
    Column("Removed", "number"),
    Column("Written", "number"),
    Column("Outcome"),
)


def syncs(status: Status) -> Iterator[Markup]:
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
