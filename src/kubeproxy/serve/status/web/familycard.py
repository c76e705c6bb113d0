"""One IP family: its health in a word, what it has programmed, and how its syncs went."""

from typing import Final

from kubeproxy.serve.status.web.charts import legend, sync_chart
from kubeproxy.serve.status.web.markup import Markup, element
from kubeproxy.serve.status.web.pieces import LEVELS, badge, fact
from kubeproxy.serve.status.wire import FamilyStatus, Sync
from kubeproxy.serve.status.words import count, elapsed, plural, since, span

_WORDS: Final = {"ok": "programmed", "partly": "partly programmed", "failed": "sync failed"}


def family_health(family: FamilyStatus) -> tuple[str, str]:
    """How a family is, in words and as a level."""
    if family.last_sync is None:
        return "waiting for the cluster", "warn"
    if not family.healthy:
        return "not healthy", "bad"
    outcome = family.last_sync.outcome
    if outcome == "ok" and family.not_programmed:
        outcome = "partly"
    return _WORDS.get(outcome, outcome), LEVELS.get(outcome, "warn")


def family_card(family: FamilyStatus, now: str) -> Markup:
    """All of it, as of now."""
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
