"""The first page: what is wrong, each family, the explain form, the services, the latest syncs."""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from kubeproxy.serve.status.services import Search
from kubeproxy.serve.status.surroundings import fill_text
from kubeproxy.serve.status.troubles import troubles
from kubeproxy.serve.status.web.charts import LEGEND, sync_chart, traffic
from kubeproxy.serve.status.web.document import document, footer
from kubeproxy.serve.status.web.explain import Explained, explain
from kubeproxy.serve.status.web.markup import (
    LEVELS,
    NOTHING,
    Markup,
    TableColumn,
    address,
    badge,
    facts,
    html,
    row,
    table,
)
from kubeproxy.serve.status.web.servicetable import services
from kubeproxy.serve.status.wire import (
    DaemonStatus,
    FamilyStatus,
    ServiceList,
    ServiceRates,
    Sync,
)
from kubeproxy.serve.status.words import (
    Trouble,
    clock,
    count,
    elapsed,
    fast_path,
    plural,
    program,
    since,
    size,
    span,
)

_WORDS: Final = {"ok": "programmed", "partly": "partly programmed", "failed": "sync failed"}
_SERVICE: Final = re.compile(r"(?:Service )?([a-z0-9-]+)/([a-z0-9-]+)(?::[a-z0-9-]+)?")
_CASES: Final = 5
"""Of one problem, so that the others are in sight; more of them unfold."""
_UNFOLDED: Final = 100
_SYNCS: Final = 12
_OLDER: Final = 48
_COLUMNS: Final = (
    *map(TableColumn, ("Ended (UTC)", "Family", "Kind")),
    *(TableColumn(each, "number") for each in ("Took", "Added", "Changed", "Removed", "Written")),
    TableColumn("Outcome"),
)


def home(
    status: DaemonStatus,
    rates: ServiceRates,
    explained: Explained,
    found: ServiceList,
    search: Search,
) -> Iterator[Markup]:
    """The whole page, with the Services that a search has found."""
    main = chain(
        state_section(status, rates),
        explain(explained),
        services(found, search),
        sync_section(status),
    )
    return document(f"kube-proxy on {status.node}", status.node, main, footer(status))


def not_found(node: str, reasons: str) -> Iterator[Markup]:
    """A page for what is not there, with a reason a line."""
    lines = [html("<p>{}</p>", line) for line in reasons.strip().split("\n")]
    main = html('<section><div class="box warn">{}</div></section>', lines)
    return document(f"not found on {node}", node, [main])


# --- the daemon at a glance -------------------------------------------------------------------


def state_section(status: DaemonStatus, rates: ServiceRates) -> Iterator[Markup]:
    """The section at the top, which is refreshed while the page is open."""
    wrong = troubles(status)
    severe = any(trouble.severe for trouble in wrong)
    fast = fast_path(status.fast_path)
    yield html(
        '<section id="state" data-refresh="state" data-syncs="{syncs}"><p class="facts">{health}'
        "{tracking}<span>{mode} mode</span><span>{version}</span><span>up {uptime}</span>"
        '<span>{memory}</span>{fast}</p>{troubles}<div class="cards">',
        syncs=str(sum(family.syncs for family in status.families)),
        health=_health(status, severe=severe),
        tracking=_tracking(status),
        mode=status.mode,
        version=program(status),
        uptime=span(status.uptime_seconds),
        memory=size(status.memory_bytes),
        fast=html("<span>fast path: {}</span>", fast) if fast else NOTHING,
        troubles=_box(wrong),
    )
    for family in status.families:
        yield _family_card(family, status.now)
    if status.counts_connections:
        total = sum(rates.services.values()) if rates.seconds else None
        yield traffic("*", total, "Of all services on this node, over the last two minutes.")
    yield html("</div></section>")


def _health(status: DaemonStatus, *, severe: bool) -> Markup:
    if not status.healthy:
        return badge("not healthy", "bad")
    return badge("not well", "bad") if severe else badge("healthy", "good")


def _tracking(status: DaemonStatus) -> Markup:
    if status.conntrack is None:
        return NOTHING
    state = status.conntrack
    title = f"{count(state.entries)} of {count(state.limit)} tracked connections"
    return html('<span title="{}">tracking {} full</span>', title, fill_text(state))


def _box(found: Sequence[Trouble]) -> Markup:
    if not found:
        return NOTHING
    return html(
        '<div class="box {}" role="region" aria-label="What is wrong">{}</div>',
        "bad" if any(trouble.severe for trouble in found) else "warn",
        (_trouble(trouble, f"trouble-{number}") for number, trouble in enumerate(found)),
    )


def _trouble(trouble: Trouble, name: str) -> Iterator[Markup]:
    """Some of its cases are in sight, others unfold; the script keeps open what has a name."""
    shown, more = trouble.cases[:_CASES], trouble.cases[_CASES:]
    yield html("<h3>{}</h3>", trouble.what)
    if shown:
        yield _cases(shown)
    if more:
        yield html('<details id="{}"><summary>{} more</summary>', name, count(len(more)))
        yield _cases(more[:_UNFOLDED])
        if len(more) > _UNFOLDED:
            yield html("<p>and {}: the JSON below has all</p>", count(len(more) - _UNFOLDED))
        yield html("</details>")
    yield html("<p>{}</p>", trouble.advice)


def _cases(cases: Sequence[tuple[str, str]]) -> Markup:
    rows = (html("<li><b>{}</b>: {}</li>", _linked(name), reason) for name, reason in cases)
    return html("<ul>{}</ul>", rows)


def _linked(name: str) -> Markup:
    """The name of a Service or of a port of it leads to its page."""
    found = _SERVICE.fullmatch(name)
    if found is None:
        return html("{}", name)
    return html('<a href="{}">{}</a>', address("status", "services", *found.groups()), name)


def family_health(family: FamilyStatus) -> tuple[str, str]:
    """The state of a family, in words and as a level."""
    if family.last_sync is None:
        return "waiting for the cluster", "warn"
    if not family.healthy:
        return "not healthy", "bad"
    outcome = family.last_sync.outcome
    if outcome == "ok" and family.not_programmed:
        outcome = "partly"
    return _WORDS.get(outcome, outcome), LEVELS.get(outcome, "warn")


def _family_card(family: FamilyStatus, now: str) -> Markup:
    """One IP family: its health, what it has programmed, and how its syncs went."""
    counts = ((family.services, "service"), (family.frontends, "frontend"))
    about = [
        ("Last sync", _when(family.last_sync, now)),
        ("Last full sync", _when(family.last_full_sync, now)),
        ("Syncs", f"{count(family.syncs)}, {count(family.failures)} failed"),
    ]
    if family.failed_connections:
        connections = plural(family.failed_connections, "connection")
        about.append(("Endpoints failed", f"{connections} in the last minute"))
    if family.waiting_seconds is not None:
        about.append(("Waiting", f"changes, for {span(family.waiting_seconds)}"))
    return html(
        '<article class="card"><h2>{} {}</h2><p>{}</p>{}{}{}</article>',
        family.ip_family,
        badge(*family_health(family)),
        ", ".join(plural(*each) for each in (*counts, (family.endpoints, "endpoint"))),
        sync_chart(family.history, f"Syncs of {family.ip_family}"),
        LEGEND,
        facts(about),
    )


def _when(sync: Sync | None, now: str) -> str:
    if sync is None:
        return "none yet"
    return f"{elapsed(sync.seconds)}, {span(since(sync.ended, now))} ago"


# --- the latest syncs -------------------------------------------------------------------------


def sync_section(status: DaemonStatus) -> Iterator[Markup]:
    """The latest syncs of all families, the newest first."""
    every = sorted(
        ((sync, family.ip_family) for family in status.families for sync in family.history),
        key=lambda each: each[0].ended,
        reverse=True,
    )
    rows = [_row(*each) for each in every[: _SYNCS + _OLDER]]
    yield html('<section id="syncs" data-refresh="state"><h2>Syncs</h2>')
    yield from table("The latest syncs", _COLUMNS, rows[:_SYNCS])
    older = rows[_SYNCS:]
    if older:
        summary = plural(len(older), "older sync")
        yield html('<details id="older"><summary>{}</summary>', summary)
        yield from table("Older syncs", _COLUMNS, older)
        yield html("</details>")
    yield html("</section>")


def _row(sync: Sync, family: str) -> Markup:
    cells = (
        html('<time datetime="{}">{}</time>', sync.ended, clock(sync.ended)),
        family,
        "full" if sync.full else "what changed",
        elapsed(sync.seconds),
        *map(count, (sync.added, sync.changed, sync.removed, sync.written)),
        badge(sync.outcome, LEVELS.get(sync.outcome, "warn")),
    )
    return row(_COLUMNS, cells)
