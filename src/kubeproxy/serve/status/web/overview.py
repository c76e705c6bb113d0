"""The daemon at a glance: what is wrong, the state of each family, and the traffic."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.serve.status.troubles import Trouble, troubles
from kubeproxy.serve.status.web.charts import legend, sync_chart
from kubeproxy.serve.status.web.markup import (
    LEVELS,
    NOTHING,
    Markup,
    badge,
    element,
    fact,
    together,
    trusted,
)
from kubeproxy.serve.status.wire import DaemonStatus, FamilyStatus, ServiceRates, Sync
from kubeproxy.serve.status.words import count, elapsed, plural, rate, since, size, span

_WORDS: Final = {"ok": "programmed", "partly": "partly programmed", "failed": "sync failed"}
_CASES: Final = 5
"""Of one problem, so that the others are in sight; more of them unfold."""
_UNFOLDED: Final = 100


def state(status: DaemonStatus, rates: ServiceRates) -> Iterator[Markup]:
    """The section at the top, which is refreshed while the page is open."""
    syncs = sum(family.syncs for family in status.families)
    yield trusted(f'<section id="state" data-refresh="state" data-syncs="{syncs:d}">')
    yield _facts(status)
    yield _box(troubles(status))
    yield trusted('<div class="cards">')
    for family in status.families:
        yield _family_card(family, status.now)
    if status.counts_connections:
        total = sum(rates.services.values()) if rates.seconds else None
        yield traffic("*", total, "Of all services on this node, over the last two minutes.")
    yield trusted("</div></section>")


def _facts(status: DaemonStatus) -> Markup:
    word, level = ("healthy", "good") if status.healthy else ("not healthy", "bad")
    facts = (
        f"{status.mode} mode",
        f"version {status.version}",
        f"up {span(status.uptime_seconds)}",
        size(status.memory_bytes),
    )
    return element(
        "p", badge(word, level), *(element("span", fact) for fact in facts), class_="facts"
    )


def _box(found: list[Trouble]) -> Markup:
    if not found:
        return NOTHING
    level = "bad" if any(trouble.severe for trouble in found) else "warn"
    return element(
        "div",
        *(_trouble(trouble, f"trouble-{number}") for number, trouble in enumerate(found)),
        class_=f"box {level}",
        role="region",
        aria_label="What is wrong",
    )


def _trouble(trouble: Trouble, name: str) -> Markup:
    return together(
        (
            element("h3", trouble.what),
            _cases(trouble.cases[:_CASES]),
            _more(trouble.cases[_CASES:], name),
            element("p", trouble.advice),
        )
    )


def _cases(cases: Sequence[tuple[str, str]]) -> Markup:
    if not cases:
        return NOTHING
    return element(
        "ul", *(element("li", element("b", what), ": ", reason) for what, reason in cases)
    )


def _more(cases: Sequence[tuple[str, str]], name: str) -> Markup:
    """The cases that unfold; the script keeps open what has a name."""
    if not cases:
        return NOTHING
    hidden = len(cases) - _UNFOLDED
    return element(
        "details",
        element("summary", f"{count(len(cases))} more"),
        _cases(cases[:_UNFOLDED]),
        element("p", f"and {count(hidden)}: the JSON below has all") if hidden > 0 else NOTHING,
        id=name,
    )


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
        element("noscript", element("p", "Rates are counted between two requests: reload.")),
        element("p", words, class_="faint"),
        class_="card",
    )


# --- a family ---------------------------------------------------------------------------------


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
            *fact("Last sync", _sync_words(family.last_sync, now)),
            *fact("Last full sync", _sync_words(family.last_full_sync, now)),
            *fact("Syncs", f"{count(family.syncs)}, {count(family.failures)} failed"),
            *_waiting(family),
        ),
        class_="card",
    )


def _sync_words(sync: Sync | None, now: str) -> str:
    if sync is None:
        return "none yet"
    return f"{elapsed(sync.seconds)}, {span(since(sync.ended, now))} ago"


def _waiting(family: FamilyStatus) -> tuple[Markup, ...]:
    if family.waiting_seconds is None:
        return ()
    return fact("Waiting", f"changes, for {span(family.waiting_seconds)}")
