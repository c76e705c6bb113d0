"""The daemon at a glance: what is wrong, how the families are, and how much traffic there is."""

from collections.abc import Iterator, Sequence
from typing import Final

from kubeproxy.serve.status.troubles import Trouble, troubles
from kubeproxy.serve.status.web.familycard import family_card
from kubeproxy.serve.status.web.markup import NOTHING, Markup, element, together, trusted
from kubeproxy.serve.status.web.pieces import badge
from kubeproxy.serve.status.wire import Rates, Status
from kubeproxy.serve.status.words import count, rate, size, span

_CASES: Final = 5
"""Of one trouble, so that the others are in sight; more of them unfold."""
_UNFOLDED: Final = 100


def state(status: Status, rates: Rates) -> Iterator[Markup]:
    """The section that is looked at first, and looked at again while the page is open."""
    syncs = sum(family.syncs for family in status.families)
    yield trusted(f'<section id="state" data-refresh="state" data-syncs="{syncs:d}">')
    yield _facts(status)
    yield _box(troubles(status))
    yield trusted('<div class="cards">')
    for family in status.families:
        yield family_card(family, status.now)
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
        element("noscript", element("p", "Rates are those since somebody looked last: reload.")),
        element("p", words, class_="faint"),
        class_="card",
    )
