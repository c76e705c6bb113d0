"""The daemon at a glance: what is wrong, how each family is, and what its syncs did."""

from collections.abc import Iterator
from typing import Final

from kubeproxy.status.figures import clock, count, elapsed, plural, rate, since, size, span
from kubeproxy.status.troubles import Trouble, troubles
from kubeproxy.status.web.charts import legend, sync_chart, sync_kind
from kubeproxy.status.web.markup import NOTHING, Markup, address, element, together, trusted
from kubeproxy.status.web.tables import Column, row, table
from kubeproxy.status.wire import FamilyStatus, Rates, Status, Sync

_CASES: Final = 20
_SYNCS: Final = 12
_OLDER: Final = 48
_WORDS: Final = {"ok": "programmed", "partly": "partly programmed", "failed": "sync failed"}
_LEVELS: Final = {"ok": "good", "partly": "warn", "failed": "bad"}
_SYNC_COLUMNS: Final = (
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


def heading(node: str) -> Markup:
    """What stands above every page."""
    return element(
        "header",
        element("h1", element("a", "kube-proxy", href="/status"), " on ", element("b", node)),
        element(
            "nav",
            element("a", "Explain", href="/status#explain"),
            element("a", "Services", href="/status#services"),
            element("a", "Syncs", href="/status#syncs"),
            aria_label="Parts of this page",
        ),
        element("p", class_="silent", role="status", hidden=True),
    )


def state(status: Status, rates: Rates) -> Iterator[Markup]:
    """The section that is looked at first, and looked at again while the page is open."""
    syncs = sum(family.syncs for family in status.families)
    yield trusted(f'<section id="state" data-refresh="state" data-syncs="{syncs:d}">')
    yield _facts(status)
    yield _box(troubles(status))
    yield trusted('<div class="cards">')
    for family in status.families:
        yield _family(family, status.now)
    if status.counts_connections:
        total = sum(rates.services.values()) if rates.seconds else None
        yield traffic("*", total, "Of all services on this node, over the last two minutes.")
    yield trusted("</div></section>")


def _facts(status: Status) -> Markup:
    word, level = ("healthy", "good") if status.healthy else ("not healthy", "bad")
    facts = (
        f"{status.mode} mode",
        f"version {status.version}",
        f"up {span(status.uptime_seconds)}",
        size(status.memory_bytes),
    )
    return element(
        "p",
        badge(word, level),
        *(element("span", fact) for fact in facts),
        class_="facts",
    )


def badge(word: str, level: str) -> Markup:
    """A word whose colour says the same."""
    return element("strong", word, class_=f"badge {level}")


def _box(found: list[Trouble]) -> Markup:
    if not found:
        return NOTHING
    level = "bad" if any(trouble.severe for trouble in found) else "warn"
    return element("div", *map(_trouble, found), class_=f"box {level}", role="alert")


def _trouble(trouble: Trouble) -> Markup:
    more = len(trouble.cases) - _CASES
    cases = together(
        element("li", element("b", what), ": ", reason) for what, reason in trouble.cases[:_CASES]
    )
    return together(
        (
            element("h3", trouble.what),
            element("ul", cases) if trouble.cases else NOTHING,
            element("p", f"and {count(more)} more") if more > 0 else NOTHING,
            element("p", trouble.advice),
        )
    )


# --- families ---------------------------------------------------------------------------------


def family_health(family: FamilyStatus) -> tuple[str, str]:
    """How a family is, in words and as a level."""
    if family.last_sync is None:
        return "waiting for the cluster", "warn"
    if not family.healthy:
        return "not healthy", "bad"
    outcome = family.last_sync.outcome
    if outcome == "ok" and family.not_programmed:
        outcome = "partly"
    return _WORDS.get(outcome, outcome), _LEVELS.get(outcome, "warn")


def _family(family: FamilyStatus, now: str) -> Markup:
    return element(
        "article",
        element("h2", family.ip_family, " ", badge(*family_health(family))),
        element(
            "p",
            ", ".join(
                (
                    plural(family.services, "service"),
                    plural(family.frontends, "frontend"),
                    plural(family.endpoints, "endpoint"),
                )
            ),
        ),
        sync_chart(family.history, f"Syncs of {family.ip_family}"),
        legend(),
        element(
            "dl",
            *_fact("Last sync", _sync_words(family.last_sync, now)),
            *_fact("Last full sync", _sync_words(family.last_full_sync, now)),
            *_fact("Syncs", f"{count(family.syncs)}, {count(family.failures)} failed"),
            *_waiting(family),
        ),
        class_="card",
    )


def _fact(label: str, text: str) -> tuple[Markup, Markup]:
    return element("dt", label), element("dd", text)


def _sync_words(sync: Sync | None, now: str) -> str:
    if sync is None:
        return "none yet"
    return f"{elapsed(sync.seconds)}, {span(since(sync.ended, now))} ago"


def _waiting(family: FamilyStatus) -> tuple[Markup, ...]:
    if family.waiting_seconds is None:
        return ()
    return _fact("Waiting", f"changes, for {span(family.waiting_seconds)}")


def traffic(service: str, per_second: float | None, words: str) -> Markup:
    """New connections of a Service, or of all (`*`): the figure of now, and the script's chart."""
    return element(
        "article",
        element("h2", "Connections"),
        element(
            "p",
            element("b", rate(per_second), class_="big", data_rate=service),
            " new connections per second",
        ),
        element("svg", class_="chart", viewBox="0 0 330 90", data_chart=service, role="img"),
        element("noscript", element("p", "Rates are those since somebody looked last: reload.")),
        element("p", words, class_="faint"),
        class_="card",
    )


# --- syncs ------------------------------------------------------------------------------------


def syncs(status: Status) -> Iterator[Markup]:
    """The latest syncs of all families, the newest first."""
    every = sorted(
        ((sync, family.ip_family) for family in status.families for sync in family.history),
        key=lambda each: each[0].ended,
        reverse=True,
    )
    yield trusted('<section id="syncs" data-refresh="state"><h2>Syncs</h2>')
    yield from table("The latest syncs", _SYNC_COLUMNS, map(_sync_row, every[:_SYNCS]))
    older = every[_SYNCS : _SYNCS + _OLDER]
    if older:
        yield trusted('<details id="older">')
        yield element("summary", plural(len(older), "older sync"))
        yield from table("Older syncs", _SYNC_COLUMNS, map(_sync_row, older))
        yield trusted("</details>")
    yield trusted("</section>")


def _sync_row(entry: tuple[Sync, str]) -> Markup:
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
        badge(sync.outcome, _LEVELS.get(sync.outcome, "warn")),
    )
    return row(_SYNC_COLUMNS, cells)


def footer(status: Status) -> Markup:
    """Where everything comes from, and where else to look."""
    facts = (
        ("Source", status.source),
        ("Configuration", status.config_file or "flags only"),
        ("Health", status.health_address),
        ("Metrics", status.metrics_address),
        ("Process", f"{status.pid}, {span(status.cpu_seconds)} of processor time"),
        ("Started", status.started),
    )
    return element(
        "footer",
        element("dl", *(each for label, text in facts for each in _fact(label, text))),
        element(
            "p",
            element("a", "JSON", href=address("status", format="json")),
            element("a", "Rules", href="/rules"),
            element("a", "Metrics", href="/metrics"),
        ),
    )
