"""The table for people: a row for each frontend and class of traffic.

The same rows are in the golden cases, in the log of a dry run, and wherever a table is shown.
"""

from collections.abc import Iterable, Iterator

from kubeproxy.table.entries import Entry, FrontendKind, Table
from kubeproxy.table.node import NodeView
from kubeproxy.table.policy import Source
from kubeproxy.table.quirks import Quirks
from kubeproxy.table.route import Route, route

HEADER = ("FRONTEND", "SOURCE", "BACKENDS", "MASQUERADE", "REFUSAL")
# A node port where `nodePortAddresses` leaves no address that serves it.
_NOT_SERVED = ("-", "-", "not served")


def rows(table: Table, node: NodeView, quirks: Quirks) -> list[tuple[str, ...]]:
    """All rows, in the order of the service ports' names."""
    return [
        row
        for name in sorted(table.entries)
        for row in entry_rows(table.entries[name], node, quirks)
    ]


def entry_rows(entry: Entry, node: NodeView, quirks: Quirks) -> Iterator[tuple[str, ...]]:
    """The rows of one service port. Sources that get the same share a row."""
    is_open = node.opens_node_ports(quirks, entry.protocol)
    for frontend in entry.frontends:
        is_closed = frontend.kind is FrontendKind.NODE_PORT and not is_open
        by_route: dict[tuple[str, ...], list[Source]] = {}
        for source in Source:
            if source is Source.POD and node.detector is None:
                continue  # without a detector no client is known to be a pod
            given = route(entry, frontend.kind, source, node.masquerading, quirks)
            is_refused = given.refusal is not None and quirks.refuses_on_all_addresses
            is_unserved = is_closed and not is_refused
            shown = _NOT_SERVED if is_unserved else _columns(given, entry, frontend.kind)
            by_route.setdefault(shown, []).append(source)
        for columns, sources in by_route.items():
            who = "any" if len(by_route) == 1 else " ".join(each.value for each in sources)
            yield (str(entry.key(frontend)), who, *columns)


def _columns(given: Route, entry: Entry, kind: FrontendKind) -> tuple[str, str, str]:
    backends = " ".join(map(str, given.backends)) or "-"
    if entry.affinity_seconds and given.backends:
        backends += f" (affinity {entry.affinity_seconds} s)"
    if kind is FrontendKind.LOAD_BALANCER and entry.source_ranges is not None:
        allowed = " ".join(map(str, entry.source_ranges))
        backends += f" (only from {allowed})" if allowed else " (no source allowed)"
    masquerade = "always" if given.masquerade else "hairpin"
    return backends, masquerade, given.refusal.value if given.refusal else "-"


def aligned(lines: Iterable[tuple[str, ...]]) -> str:
    """Rows as text with aligned columns, under their header."""
    every = [HEADER, *lines]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in every
    )
